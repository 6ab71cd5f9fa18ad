package stories

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/waypoint-mesh/waypoint/internal/meshtest"
)

// attacker is an HTTP/2 client of which every frame is written by hand, over a
// stream of a tunnel or over anything else.
type attacker struct {
	t       *testing.T
	conn    io.ReadWriteCloser
	framer  *http2.Framer
	encoded bytes.Buffer
	encoder *hpack.Encoder
	next    uint32
	request []meshtest.Field // of floods: what is good to ask here
	refused []meshtest.Field // and what is refused
}

// innerH2 opens one inside of a stream to target.
func (w *town) innerH2(target string) *attacker {
	w.t.Helper()
	c := newAttacker(w.t, w.open(target))
	c.request, c.refused = h2Request("GET", "echo", "/"), h2Request("GET", "echo", "/%00")
	return c
}

func newAttacker(t *testing.T, conn io.ReadWriteCloser) *attacker {
	t.Helper()
	c := &attacker{t: t, conn: conn, framer: http2.NewFramer(conn, conn), next: 1}
	c.framer.AllowIllegalWrites = true
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.encoded)
	c.must(func() error { _, err := io.WriteString(conn, http2.ClientPreface); return err }())
	c.must(c.framer.WriteSettings())
	return c
}

func (c *attacker) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// Close ends the connection without a word.
func (c *attacker) Close() { c.conn.Close() } // it may have gone

// block encodes fields.
func (c *attacker) block(fields []meshtest.Field) []byte {
	c.encoded.Reset()
	for _, f := range fields {
		c.must(c.encoder.WriteField(hpack.HeaderField{Name: f.Name, Value: f.Value}))
	}
	return bytes.Clone(c.encoded.Bytes())
}

// open sends a header block on a new stream.
func (c *attacker) open(fields []meshtest.Field, end bool) uint32 {
	id := c.next
	c.next += 2
	block := c.block(fields)
	first := min(len(block), 16<<10)
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:first], EndStream: end, EndHeaders: first == len(block)}))
	for block = block[first:]; len(block) > 0; {
		next := min(len(block), 16<<10)
		c.must(c.framer.WriteContinuation(id, next == len(block), block[:next]))
		block = block[next:]
	}
	return id
}

// get are the fields of a request.
func h2Request(method, authority, path string, more ...meshtest.Field) []meshtest.Field {
	return append([]meshtest.Field{{Name: ":method", Value: method}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: authority}, {Name: ":path", Value: path}}, more...)
}

// ask sends a request, with a body if it is not empty, and returns the outcome.
func (c *attacker) ask(fields []meshtest.Field, body string) string {
	id := c.open(fields, body == "")
	if body != "" {
		if err := c.framer.WriteData(id, true, []byte(body)); err != nil {
			return err.Error()
		}
	}
	return c.outcome(id)
}

// answered waits for the head of a stream's response, or for its end.
func (c *attacker) answered(id uint32) string {
	c.deadline(patience)
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return err.Error()
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID == id {
				return f.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return "RST " + f.ErrCode.String()
			}
		}
	}
}

// outcome waits for how a stream ends: "STATUS", "RST CODE", "GOAWAY CODE" or
// "closed".
func (c *attacker) outcome(id uint32) string {
	c.deadline(patience)
	status := ""
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			var bad http2.ConnectionError
			if errors.As(err, &bad) || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				var reset *meshtest.ResetError
				if !errors.As(err, &reset) {
					return "read: " + err.Error()
				}
			}
			return "closed"
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.framer.WriteSettingsAck() // a connection that is over says so when read
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				c.framer.WritePing(true, f.Data) // as above
			}
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				return "GOAWAY " + f.ErrCode.String()
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				if status != "" {
					status += " "
				}
				return status + "RST " + f.ErrCode.String()
			}
		case *http2.MetaHeadersFrame:
			if f.StreamID == id {
				if s := f.PseudoValue("status"); s != "" {
					status = s
				}
				if f.StreamEnded() {
					return status
				}
			}
		case *http2.DataFrame:
			if n := f.Length; n > 0 {
				c.framer.WriteWindowUpdate(0, n) // as above
			}
			if f.StreamID == id && f.StreamEnded() {
				return status
			}
		}
	}
}

func (c *attacker) deadline(d time.Duration) {
	if conn, ok := c.conn.(interface{ SetReadDeadline(time.Time) error }); ok {
		c.must(conn.SetReadDeadline(time.Now().Add(d)))
	}
}

// fate waits until the connection is over, and says how: "GOAWAY CODE", or how
// reading broke. It writes nothing, so that others may meanwhile.
func (c *attacker) fate() string {
	c.deadline(patience)
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return err.Error()
		}
		if f, ok := frame.(*http2.GoAwayFrame); ok && f.ErrCode != http2.ErrCodeNo {
			return "GOAWAY " + f.ErrCode.String()
		}
	}
}

// trailers sends a second header block.
func (c *attacker) trailers(id uint32, fields []meshtest.Field, end bool) {
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block(fields), EndStream: end, EndHeaders: true}))
}

// containsWord reports whether got is one of the outcomes "A|B".
func containsWord(outcomes, got string) bool {
	return strings.Contains("|"+outcomes+"|", "|"+got+"|")
}
