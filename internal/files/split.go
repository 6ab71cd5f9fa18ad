package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// chunk is the text of one document and where it stands.
type chunk struct {
	text string // a part of the file's content
	line int    // of its first line, counted from 1
}

// byteOrderMark is what some editors put in front of UTF-8.
const byteOrderMark = "\ufeff"

// split cuts the content of a file into documents. It does not parse YAML, but
// looks for the two markers that cannot occur within a document (YAML 1.2.2
// section 9.1.2): lines that begin with "---" or "...". Documents without content
// are left out. The texts are parts of content.
func split(content string, isJSON bool) ([]chunk, error) {
	if !utf8.ValidString(content) || strings.IndexByte(content, 0) >= 0 {
		return nil, errors.New("not UTF-8 text: it is binary, compressed or in another encoding")
	}
	content = strings.TrimPrefix(content, byteOrderMark)
	if isJSON {
		return splitJSON(content)
	}
	return splitYAML(content), nil
}

func splitYAML(content string) (chunks []chunk) {
	c := chunk{line: 1}
	start, line := 0, 1
	flush := func(end int) {
		if c.text = content[start:end]; hasContent(c.text) {
			chunks = append(chunks, c)
		}
	}
	for at := 0; at < len(content); line++ {
		next := len(content)
		if i := strings.IndexByte(content[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		if isMarker(content[at:next]) {
			flush(at)
			start, c.line = next, line+1
			if rest := content[at+len("---") : next]; hasContent(rest) { // it belongs to the document
				start, c.line = at+len("---"), line
			}
		}
		at = next
	}
	flush(len(content))
	return chunks
}

// isMarker reports whether a line begins with a document marker: "---" or "..."
// and then white space or the end.
func isMarker(line string) bool {
	if !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "...") {
		return false
	}
	return len(line) == 3 || strings.IndexByte(" \t\r\n", line[3]) >= 0
}

// hasContent reports whether there is more than comments, directives and white
// space.
func hasContent(text string) bool {
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != '%' {
			return true
		}
		text = rest
	}
	return false
}

// splitJSON cuts a stream of JSON values.
func splitJSON(content string) (chunks []chunk, err error) {
	dec := json.NewDecoder(strings.NewReader(content))
	line, counted := 1, 0
	for {
		var value json.RawMessage
		if err := dec.Decode(&value); errors.Is(err, io.EOF) {
			return chunks, nil
		} else if err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		end := int(dec.InputOffset())
		start := end - len(bytes.TrimSpace(value))
		line += strings.Count(content[counted:start], "\n")
		counted = start
		chunks = append(chunks, chunk{content[start:end], line})
	}
}
