package tunnel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"

	"github.com/waypoint-mesh/waypoint/internal/hbone"
)

// SOCKS version 5, RFC 1928: the parts that a client needs to say where it wants
// to go. No authentication: the listener is meant for loopback.
const (
	socksVersion = 5
	noAuth       = 0
	noneOffered  = 0xff
	cmdConnect   = 1

	addrIPv4   = 1
	addrDomain = 3
	addrIPv6   = 4
)

// reply codes, RFC 1928 section 6.
const (
	replyOK                 = 0
	replyFailure            = 1
	replyNotAllowed         = 2
	replyHostUnreachable    = 4
	replyConnectionRefused  = 5
	replyTTLExpired         = 6
	replyUnsupportedCommand = 7
	replyUnsupportedAddress = 8
)

// socksError is a request that is answered with a code.
type socksError struct {
	code byte
	msg  string
}

func (e *socksError) Error() string { return "SOCKS5: " + e.msg }

// readSocksRequest does a client's greeting and reads its request. It returns
// the target as host:port. c is read byte-exactly: what follows the request is
// the client's own.
func readSocksRequest(c io.ReadWriter) (string, error) {
	if err := greet(c); err != nil {
		return "", err
	}
	var head [4]byte // version, command, reserved, address type
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return "", fmt.Errorf("SOCKS5: reading the request: %w", err)
	}
	if head[0] != socksVersion {
		return "", &socksError{replyFailure, fmt.Sprintf("version %d in the request, expected 5", head[0])}
	}
	host, err := readAddress(c, head[3])
	if err != nil {
		return "", err
	}
	var port [2]byte
	if _, err := io.ReadFull(c, port[:]); err != nil {
		return "", fmt.Errorf("SOCKS5: reading the port: %w", err)
	}
	if head[1] != cmdConnect {
		return "", &socksError{replyUnsupportedCommand, fmt.Sprintf("command %d, only CONNECT is there", head[1])}
	}
	return net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(port[:])))), nil
}

// greet agrees on a method: none.
func greet(c io.ReadWriter) error {
	var head [2]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return fmt.Errorf("SOCKS5: reading the greeting: %w", err)
	}
	if head[0] != socksVersion {
		return fmt.Errorf("SOCKS5: the client speaks version %d, expected 5", head[0])
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(c, methods); err != nil {
		return fmt.Errorf("SOCKS5: reading the greeting: %w", err)
	}
	for _, m := range methods {
		if m == noAuth {
			_, err := c.Write([]byte{socksVersion, noAuth})
			return err
		}
	}
	_, err := c.Write([]byte{socksVersion, noneOffered})
	return errors.Join(errors.New("SOCKS5: the client wants authentication, there is none"), err)
}

func readAddress(c io.Reader, kind byte) (string, error) {
	size := 0
	switch kind {
	case addrIPv4:
		size = 4
	case addrIPv6:
		size = 16
	case addrDomain:
		var n [1]byte
		if _, err := io.ReadFull(c, n[:]); err != nil {
			return "", fmt.Errorf("SOCKS5: reading the address: %w", err)
		}
		size = int(n[0])
	}
	if size == 0 {
		return "", &socksError{replyUnsupportedAddress, fmt.Sprintf("address type %d, or an empty name", kind)}
	}
	addr := make([]byte, size)
	if _, err := io.ReadFull(c, addr); err != nil {
		return "", fmt.Errorf("SOCKS5: reading the address: %w", err)
	}
	if kind == addrDomain {
		return string(addr), nil
	}
	ip, _ := netip.AddrFromSlice(addr) // 4 and 16 bytes always are one
	return ip.Unmap().String(), nil
}

// socksReply is the answer to a request. The bound address is of no use to the
// client here, and is sent as zero.
func socksReply(code byte) []byte { return []byte{socksVersion, code, 0, addrIPv4, 0, 0, 0, 0, 0, 0} }

func writeSocksReply(c io.Writer, code byte) error {
	_, err := c.Write(socksReply(code))
	return err
}

// askSOCKS speaks SOCKS up to the request, which is answered once the stream is
// open.
func askSOCKS(conn net.Conn) (hbone.Target, error) {
	text, err := readSocksRequest(conn)
	if err != nil {
		if refused, ok := errors.AsType[*socksError](err); ok {
			err = errors.Join(err, writeSocksReply(conn, refused.code))
		}
		return hbone.Target{}, err
	}
	target, err := hbone.ParseTarget(text)
	if err != nil {
		return hbone.Target{}, errors.Join(err, writeSocksReply(conn, replyFailure))
	}
	return target, nil
}
