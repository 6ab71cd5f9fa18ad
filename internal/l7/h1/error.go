package h1

// Error is why a message was refused. Errors of this type are constants of the
// package, so that refusing costs nothing.
type Error struct {
	// Status is the answer it deserves, if it was a request.
	Status int
	// Details names the fault in snake case, for access log and trace.
	Details string
}

// Error says what is wrong with the message.
func (e *Error) Error() string { return "HTTP/1 message refused: " + e.Details }

func bad(details string) *Error { return &Error{400, "http1_" + details} }

// What is wrong with a message.
var (
	ErrTooLarge     = &Error{431, "request_headers_too_large"}
	ErrTooMany      = &Error{431, "too_many_request_headers"}
	ErrVersion      = &Error{505, "http1_version_not_supported"}
	ErrCoding       = &Error{501, "http1_unknown_transfer_coding"}
	ErrConnect      = &Error{405, "http1_connect_refused"}
	ErrBareLF       = bad("line_without_carriage_return")
	ErrStartLine    = bad("malformed_start_line")
	ErrMethod       = bad("malformed_method")
	ErrTarget       = bad("malformed_target")
	ErrFieldName    = bad("malformed_field_name")
	ErrFieldValue   = bad("malformed_field_value")
	ErrFolded       = bad("folded_field")
	ErrNoHost       = bad("no_host")
	ErrHost         = bad("malformed_host")
	ErrHosts        = bad("several_hosts")
	ErrHostMismatch = bad("host_differs_from_target")
	ErrLength       = bad("malformed_content_length")
	ErrLengths      = bad("several_content_lengths")
	ErrSmuggling    = bad("content_length_with_transfer_encoding")
	ErrTE           = bad("malformed_transfer_encoding")
	ErrConnection   = bad("too_many_connection_options")
	ErrChunk        = bad("malformed_chunk")
	ErrTrailer      = bad("malformed_trailer")
)
