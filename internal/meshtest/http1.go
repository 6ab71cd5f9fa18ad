package meshtest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Request is one request as it reached an application.
type Request struct {
	App    string // which one
	Method string
	Target string // as it stood in the request line; HTTP/2: the path
	Proto  string
	Host   string
	Header []Field // HTTP/1: as they were spelled, in their order. HTTP/2: sorted, lower case
	Peer   netip.AddrPort
	Conn   int // which connection of the application it came on, from 1

	Body    []byte // the first 64 KiB
	Length  int64  // of the whole body
	SHA256  [sha256.Size]byte
	Trailer []Field
}

// Get is the value of a header field, its name in any case; empty if it has none.
func (r *Request) Get(name string) string {
	if values := r.Values(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Values are the values of all fields of a name.
func (r *Request) Values(name string) (values []string) {
	for _, f := range r.Header {
		if strings.EqualFold(f.Name, name) {
			values = append(values, f.Value)
		}
	}
	return values
}

// bodyRecorder keeps what Request says of a body.
type bodyRecorder struct {
	r    *Request
	hash hash.Hash
}

func record(r *Request) *bodyRecorder { return &bodyRecorder{r: r, hash: sha256.New()} }

func (b *bodyRecorder) Write(p []byte) (int, error) {
	b.r.Body = append(b.r.Body, p[:min(len(p), 64<<10-len(b.r.Body))]...)
	b.r.Length += int64(len(p))
	b.hash.Write(p)
	b.hash.Sum(b.r.SHA256[:0])
	return len(p), nil
}

// recorder collects the requests of an application.
type recorder struct {
	mu       sync.Mutex
	requests []Request
}

func (r *recorder) add(request *Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, *request)
}

// Requests are those that were answered so far.
func (r *recorder) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

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
		x, err := readHead(in)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				fmt.Fprintf(conn, "HTTP/1.1 400 Bad\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(err.Error()), err)
			}
			return
		}
		x.Conn, x.App, x.Peer, x.Request.Conn = conn, a.Name, addrPort(conn.RemoteAddr()), number
		a.handlerMu.Lock()
		handler := a.handler
		a.handlerMu.Unlock()
		handler(x)
		if _, err := io.Copy(io.Discard, x.body); err != nil {
			return
		}
		a.add(x.Request)
		if x.closes || strings.EqualFold(x.Get("connection"), "close") || x.Proto == "HTTP/1.0" {
			return
		}
	}
}

// readHead reads the request line and the fields and sees to the body.
func readHead(in *bufio.Reader) (*Exchange, error) {
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
	x := &Exchange{Request: r, In: in}
	body, err := bodyOf(r, in)
	x.body = io.TeeReader(body, record(r))
	return x, err
}

func bodyOf(r *Request, in *bufio.Reader) (io.Reader, error) {
	if strings.EqualFold(r.Get("transfer-encoding"), "chunked") {
		return &chunkedBody{in: in, r: r, chunks: httputil.NewChunkedReader(in)}, nil
	}
	length := r.Values("content-length")
	switch len(length) {
	case 0:
		return strings.NewReader(""), nil
	case 1:
		n, err := strconv.ParseUint(length[0], 10, 63)
		return &exactly{io.LimitedReader{R: in, N: int64(n)}}, err
	default:
		return nil, fmt.Errorf("meshtest: %d content-length fields", len(length))
	}
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
	r      *Request
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
		var broken error
		if c.r.Trailer, broken = readFields(c.in); broken != nil {
			err = broken
		}
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

func addrPort(addr net.Addr) netip.AddrPort { return addr.(*net.TCPAddr).AddrPort() }
