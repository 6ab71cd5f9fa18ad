package route

// Request is what is known of a request when its rule is looked up.
type Request struct {
	Method string
	Path   string // normalised, see NormalizePath
	Query  string // without "?"
	Host   string // as sent; its case and port do not matter
	// Headers have lower-case names.
	Headers []Field
}

// header returns the value of a header. RFC 9110 section 5.2: several lines of
// one name are one list, joined by commas; a match sees all of it. One line is
// returned as it is; several are put together in scratch, as joined.
//
// The two kinds of result are apart, here and in parameter, for the sake of
// escape analysis: scratch stays on the stack as long as no regular expression
// can see it.
func (r *Request) header(name string, scratch []byte) (line string, joined []byte, ok bool) {
	if name == "host" {
		return r.Host, nil, r.Host != ""
	}
	first := r.indexOf(name)
	if first < 0 {
		return "", nil, false
	}
	lines := 1
	for i := first + 1; i < len(r.Headers); i++ {
		if r.Headers[i].Name != name {
			continue
		}
		if lines++; lines == 2 {
			scratch = append(scratch, r.Headers[first].Value...)
		}
		scratch = append(scratch, separator(name)...)
		scratch = append(scratch, r.Headers[i].Value...)
	}
	if lines == 1 {
		return r.Headers[first].Value, nil, true
	}
	return "", scratch, true
}

// separator joins lines of one name; cookies have their own (RFC 9113 section
// 8.2.3).
func separator(name string) string {
	if name == "cookie" {
		return "; "
	}
	return ","
}

func (r *Request) indexOf(name string) int {
	for i := range r.Headers {
		if r.Headers[i].Name == name {
			return i
		}
	}
	return -1
}
