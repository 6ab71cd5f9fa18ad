package h1

import (
	"net/http"
	"strconv"
)

// AppendRequestLine appends the first line of a request.
func AppendRequestLine(dst []byte, method, target string) []byte {
	dst = append(dst, method...)
	dst = append(dst, ' ')
	dst = append(dst, target...)
	return append(dst, " HTTP/1.1\r\n"...)
}

// AppendStatusLine appends the first line of a response. An empty reason is that
// of the standard.
func AppendStatusLine(dst []byte, status int, reason string) []byte {
	if reason == "" {
		reason = http.StatusText(status)
	}
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, reason...)
	return append(dst, "\r\n"...)
}

// AppendField appends one field line.
func AppendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// AppendHeader appends all fields of h as their senders spelled them.
func AppendHeader(dst []byte, h *Header) []byte {
	for i := range h.Fields {
		dst = AppendField(dst, h.spelling[i], h.Fields[i].Value)
	}
	return dst
}

// AppendChunkSize appends the line before n bytes of chunk data, n > 0.
func AppendChunkSize(dst []byte, n int) []byte {
	dst = strconv.AppendInt(dst, int64(n), 16)
	return append(dst, "\r\n"...)
}

// AppendLastChunk appends the end of a chunked body, with trailers if there are
// any that may be.
func AppendLastChunk(dst []byte, trailers []Field) []byte {
	dst = append(dst, "0\r\n"...)
	for _, f := range trailers {
		if MayTrail(f.Name) && ValidToken(f.Name) && ValidValue(f.Value) {
			dst = AppendField(dst, f.Name, f.Value)
		}
	}
	return append(dst, "\r\n"...)
}
