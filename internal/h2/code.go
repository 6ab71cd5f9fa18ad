package h2

import (
	"errors"
	"strconv"
)

// ErrCode is an error code of RST_STREAM and GOAWAY (RFC 9113 section 7). As an
// error it may be the cause given to [Stream.Abort], which then sends it.
type ErrCode uint32

// The codes of RFC 9113 section 7.
const (
	NoError            ErrCode = 0x0
	ProtocolError      ErrCode = 0x1
	InternalError      ErrCode = 0x2
	FlowControlError   ErrCode = 0x3
	SettingsTimeout    ErrCode = 0x4
	StreamClosed       ErrCode = 0x5
	FrameSizeError     ErrCode = 0x6
	RefusedStream      ErrCode = 0x7
	Cancel             ErrCode = 0x8
	CompressionError   ErrCode = 0x9
	ConnectError       ErrCode = 0xa
	EnhanceYourCalm    ErrCode = 0xb
	InadequateSecurity ErrCode = 0xc
	HTTP11Required     ErrCode = 0xd
)

var codeNames = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
	"STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
	"CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// String returns the name of the RFC, or the number of an unknown code.
func (c ErrCode) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "0x" + strconv.FormatUint(uint64(c), 16)
}

// Error says that the code ended something.
func (c ErrCode) Error() string { return "HTTP/2 error " + c.String() }

// StreamError is why one stream broke.
type StreamError struct {
	Code ErrCode
	// Remote: the peer reset the stream. Else we did.
	Remote bool
	// Unprocessed: the peer has provably not begun to work on the request, so
	// it may be sent again (RFC 9113 section 8.7).
	Unprocessed bool
	// Reason says in words what was wrong, where we know.
	Reason string
}

func (e *StreamError) Error() string {
	who := "stream reset by us: "
	if e.Remote {
		who = "stream reset by the peer: "
	}
	return who + withReason(e.Code, e.Reason)
}

// Unwrap returns the code, so that errors.Is(err, h2.Cancel) works.
func (e *StreamError) Unwrap() error { return e.Code }

// ConnError is why a connection, and every stream on it, ended.
type ConnError struct {
	Code ErrCode
	// Remote: the peer sent the GOAWAY. Else we did.
	Remote bool
	// Reason is ours in words, or the debug data of the peer's GOAWAY.
	Reason string
}

func (e *ConnError) Error() string {
	who := "HTTP/2 connection ended by us: "
	if e.Remote {
		who = "HTTP/2 connection ended by the peer: "
	}
	return who + withReason(e.Code, e.Reason)
}

// Unwrap returns the code.
func (e *ConnError) Unwrap() error { return e.Code }

func withReason(c ErrCode, reason string) string {
	if reason == "" {
		return c.String()
	}
	return c.String() + ": " + reason
}

var (
	// ErrNoCapacity is returned by Open when the peer's limit of concurrent
	// streams is reached or the connection takes no new streams.
	ErrNoCapacity = errors.New("no stream can be opened: the peer's limit is reached or the connection is draining")
	// ErrHeadTooLarge is returned for a header section larger than the peer says
	// that it takes. Nothing was sent.
	ErrHeadTooLarge = errors.New("the header section is larger than the peer accepts")
	// ErrClosed is what ends the streams of a connection whose transport ended
	// without an error of its own.
	ErrClosed = errors.New("the HTTP/2 connection was closed")

	errWriteEnded  = errors.New("write on a stream whose sending side has ended")
	errNoHead      = errors.New("write on a stream before its response head")
	errSecondHead  = errors.New("second final response head on one stream")
	errStatus      = errors.New("the status of a response is not between 100 and 999, or an interim one ends the stream")
	errNoProtocol  = errors.New("the peer does not allow extended CONNECT (RFC 8441)")
	errAborted     = errors.New("stream aborted")
	errOutputLimit = errors.New("the peer does not read what we send")
)

// connError returns the error that ends a connection for what the peer did.
func connError(code ErrCode, reason string) error {
	return &ConnError{Code: code, Reason: reason}
}

// codeOf returns the code to reset a stream with for cause: its own if it
// carries one, INTERNAL_ERROR else, which unlike CANCEL a ztunnel logs.
func codeOf(cause error) ErrCode {
	var code ErrCode
	if errors.As(cause, &code) {
		return code
	}
	return InternalError
}
