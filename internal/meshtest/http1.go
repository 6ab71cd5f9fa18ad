package meshtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
)

// HTTPApp is an HTTP/1.1 application that records requests as they stand on the
// wire, which net/http would not tell: order and case of the fields, the raw
// target, the framing.
type HTTPApp struct {
	*App
	recorder

	handlerMu sync.Mutex
	handler   Handler
}

// Handler answers one request. Its body is there to be read from x; what is not
// read is read after it.
type Handler func(x *Exchange)

// Exchange is a request and the way to answer it.
type Exchange struct {
	*Request
	Conn   *net.TCPConn
	In     *bufio.Reader // what comes on the connection, past the head
	body   io.Reader
	closes bool
}

// Read reads the body.
func (x *Exchange) Read(p []byte) (int, error) { return x.body.Read(p) }

// Write writes to the connection as it is.
func (x *Exchange) Write(p []byte) (int, error) { return x.Conn.Write(p) }

// Close ends the connection after this exchange.
func (x *Exchange) Close() { x.closes = true }

// Reply writes a whole response. Its length is framed unless a field says
// otherwise.
func (x *Exchange) Reply(status int, body string, fields ...Field) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, "Said-So")
	framed := false
	for _, f := range fields {
		framed = framed || strings.EqualFold(f.Name, "content-length") || strings.EqualFold(f.Name, "transfer-encoding")
		fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
	}
	if !framed && status >= 200 && status != 204 && status != 304 {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	if x.Method != "HEAD" {
		b.WriteString(body)
	}
	if _, err := x.Write(b.Bytes()); err != nil {
		x.Close()
	}
}

// Tell is the default handler: it reads the body and answers with the request
// as JSON.
func Tell(x *Exchange) {
	if strings.EqualFold(x.Get("expect"), "100-continue") {
		x.Reply(100, "")
	}
	if _, err := io.Copy(io.Discard, x); err != nil {
		x.Close()
		return
	}
	told, err := json.Marshal(x.Request)
	if err != nil {
		x.Reply(500, err.Error())
		return
	}
	x.Reply(200, string(told), Field{"Content-Type", "application/json"}, Field{"X-App", x.App})
}

// HTTP starts an HTTP/1.1 application.
func (m *Mesh) HTTP(name, addr string) *HTTPApp {
	m.t.Helper()
	app := &HTTPApp{App: &App{Listener: m.bind(addr), Name: name}, handler: Tell}
	app.App.serve(m, app.serve)
	return app
}

// Handle has requests from now on answered by h; nil: by [Tell].
func (a *HTTPApp) Handle(h Handler) {
	a.handlerMu.Lock()
	defer a.handlerMu.Unlock()
	if h == nil {
		h = Tell
	}
	a.handler = h
}

func (a *HTTPApp) serve(conn *net.TCPConn, number int) {
	in := bufio.NewReaderSize(conn, 128<<10)
	for {
		r, err := readHead(in)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				fmt.Fprintf(conn, "HTTP/1.1 400 Bad\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(err.Error()), err)
			}
			return
		}
		r.App, r.Peer, r.Serial = a.Name, addrPort(conn.RemoteAddr()), number
		x := &Exchange{Request: r, Conn: conn, In: in, body: bodyOf(r, in, a.add(r))}
		a.handlerMu.Lock()
		handler := a.handler
		a.handlerMu.Unlock()
		handler(x)
		if _, err := io.Copy(io.Discard, x); err != nil {
			return
		}
		if x.closes || strings.EqualFold(x.Get("connection"), "close") || x.Proto == "HTTP/1.0" {
			return
		}
	}
}

// readHead reads the request line and the fields.
func readHead(in *bufio.Reader) (*Request, error) {
	line, err := readLine(in)
	if err != nil {
		return nil, err
	}
	part := strings.Split(line, " ")
	if len(part) != 3 {
		return nil, fmt.Errorf("meshtest: bad request line %q", line)
	}
	r := &Request{Method: part[0], Target: part[1], Proto: part[2]}
	if r.Header, err = readFields(in); err != nil {
		return nil, err
	}
	r.Host = r.Get("host")
	if length := r.Values("content-length"); len(length) > 0 {
		_, err = strconv.ParseUint(length[0], 10, 63)
		if err == nil && (len(length) > 1 || r.Get("transfer-encoding") != "") {
			err = errors.New("meshtest: the length of the body is said twice")
		}
	}
	return r, err
}

// bodyOf reads what readHead has found to be framed well.
func bodyOf(r *Request, in *bufio.Reader, record *body) io.Reader {
	if strings.EqualFold(r.Get("transfer-encoding"), "chunked") {
		return &chunkedBody{in: in, record: record, chunks: io.TeeReader(httputil.NewChunkedReader(in), record)}
	}
	length, _ := strconv.ParseInt(r.Get("content-length"), 10, 64) // without one: no body
	return io.TeeReader(&exactly{io.LimitedReader{R: in, N: length}}, record)
}

// exactly makes an early end an error.
type exactly struct{ io.LimitedReader }

func (e *exactly) Read(p []byte) (int, error) {
	n, err := e.LimitedReader.Read(p)
	if errors.Is(err, io.EOF) && e.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// chunkedBody reads the trailer fields when the chunks have ended.
type chunkedBody struct {
	in     *bufio.Reader
	record *body
	chunks io.Reader
	ended  bool
}

func (c *chunkedBody) Read(p []byte) (int, error) {
	if c.ended {
		return 0, io.EOF
	}
	n, err := c.chunks.Read(p)
	if errors.Is(err, io.EOF) {
		c.ended = true
		trailer, broken := readFields(c.in)
		if broken != nil {
			return n, broken
		}
		c.record.end(trailer)
	}
	return n, err
}

func readFields(in *bufio.Reader) (fields []Field, err error) {
	for {
		line, err := readLine(in)
		if err != nil || line == "" {
			return fields, err
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("meshtest: a field without a colon: %q", line)
		}
		fields = append(fields, Field{name, strings.TrimSpace(value)})
	}
}

func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil && line != "" {
		err = io.ErrUnexpectedEOF
	}
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), err
}
