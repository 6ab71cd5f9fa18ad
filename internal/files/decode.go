package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/waypoint-mesh/waypoint/internal/translate"
)

// decoder decodes documents of one file, and remembers what it can use again.
type decoder struct {
	docs  map[string]*document // by text
	items map[string]*object   // of lists, by JSON: those that stay as they are are the same
	// decoded counts the documents that were not remembered.
	decoded int
}

func newDecoder(known []*document) *decoder {
	d := &decoder{docs: make(map[string]*document, len(known)), items: make(map[string]*object)}
	for _, doc := range known {
		d.docs[doc.text] = doc
		for _, o := range doc.objects {
			if o.item != "" {
				d.items[o.item] = o
			}
		}
	}
	return d
}

// decode reads one document: an object, or a list of them.
func (d *decoder) decode(c chunk) *document {
	if doc := d.docs[c.text]; doc != nil {
		delete(d.docs, c.text) // the same text a second time is another document
		doc.chunk = c
		return doc
	}
	d.decoded++
	doc := &document{chunk: c}
	items, isList, err := listItems(c.text)
	switch {
	case err != nil:
		doc.fail(c.text, err)
	case !isList:
		doc.add(c.text)
	}
	for _, item := range items {
		if o := d.items[string(item)]; o != nil {
			o.doc = doc
			doc.objects = append(doc.objects, o)
			continue
		}
		for _, o := range doc.add(string(item)) {
			o.item = string(item)
		}
	}
	return doc
}

// listItems returns the items of a list, each as JSON. Any kind that ends in
// "List" is one.
func listItems(text string) (items []json.RawMessage, isList bool, err error) {
	if !strings.Contains(text, "List") { // spares parsing all others twice
		return nil, false, nil
	}
	js := []byte(text)
	if !json.Valid(js) { // JSON is YAML too, but read ten times as fast without it
		if js, err = yaml.YAMLToJSONStrict(js); err != nil {
			return nil, false, fmt.Errorf("not YAML: %w", err)
		}
	}
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(js, &list) != nil || !strings.HasSuffix(list.Kind, "List") {
		return nil, false, nil // whatever is wrong with it is told when it is decoded as an object
	}
	return list.Items, true, nil
}

// add decodes one object of the document and returns what it added to objects.
func (d *document) add(text string) []*object {
	before := len(d.objects)
	value, err := translate.Decode([]byte(text))
	var rejected *translate.Rejected
	switch {
	case err == nil:
		d.objects = append(d.objects, &object{key: translate.KeyOf(value), value: value, doc: d})
	case errors.As(err, &rejected):
		d.objects = append(d.objects, &object{key: rejected.Key, rejected: rejected, doc: d})
	case errors.Is(err, translate.ErrUnknownKind):
		d.ignored = append(d.ignored, kindIn(text))
	default:
		d.fail(text, err)
	}
	return d.objects[before:]
}

// fail notes that a text could not be parsed, and rejects the object that it
// would have been, if that can be told.
func (d *document) fail(text string, cause error) {
	cause = onOneLine(text, cause)
	d.broken = cause
	if r := salvage(text, cause); r != nil {
		d.objects = append(d.objects, &object{key: r.Key, rejected: r, doc: d})
	}
}

// onOneLine is what a parser says, without its line breaks, and what it cannot know.
func onOneLine(text string, cause error) error {
	said := strings.ReplaceAll(cause.Error(), "unmarshal errors:\n  ", "")
	said = strings.ReplaceAll(said, "\n  ", "; ")
	if strings.Contains(text, "{{") && strings.Contains(text, "}}") {
		said += " (a template? It has to be rendered first)"
	}
	if said == cause.Error() {
		return cause
	}
	return errors.New(said)
}

// faultLine is what could not be parsed, and the line of the file that it is in.
func (d *document) faultLine() (line int, fault string) {
	if d.broken == nil {
		return d.line, ""
	}
	fault = d.broken.Error()
	if at := lineNumber.FindStringSubmatch(fault); at != nil {
		if n, err := strconv.Atoi(at[1]); err == nil && n > 0 {
			return d.line + n - 1, strings.Replace(fault, at[0]+": ", "", 1)
		}
	}
	return d.line, fault
}

// kindIn returns "apiVersion kind" of an object, for people.
func kindIn(text string) string {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		return "unknown kind"
	}
	return head.APIVersion + " " + head.Kind
}
