package h2

// Field is one field of a header or trailer section, its name in lower case.
type Field = struct{ Name, Value string }

// Head is the header section of a request or of a response.
//
// Of a request that was received, every rule of RFC 9113 section 8 has been
// checked: the pseudo-header fields are there as its method wants them, Authority
// is set from :authority or else from Host (which is not among the Fields), and
// Fields holds no connection-specific field.
//
// What is given to be sent must obey the same rules; it is not checked again.
type Head struct {
	// Of a request. CONNECT has Method and Authority alone; with Protocol it is
	// an extended CONNECT (RFC 8441) and has all five.
	Method, Scheme, Authority, Path, Protocol string
	// Status of a response, 100 to 999.
	Status int
	// Fields are the others in the order of the wire, repeats included.
	Fields []Field
	// TooLarge: the request exceeded the limit of header bytes or fields and is
	// not complete. Answer 431.
	TooLarge bool
}

// Get returns the value of the first field called name, which is in lower case.
func (h *Head) Get(name string) string {
	for i := range h.Fields {
		if h.Fields[i].Name == name {
			return h.Fields[i].Value
		}
	}
	return ""
}

// interim reports whether h is a response that another one follows.
func (h *Head) interim() bool { return h.Status >= 100 && h.Status < 200 }
