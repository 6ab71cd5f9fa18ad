package translate

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// The decoders stop at the first value of a wrong type and say neither which item of a list it is in nor what is wanted, in
// the words of the file. These walks over the decoded document do; they run only for documents that are faulty (typed
// kinds) or small (Istio's).

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// wrongTypes reports the values in js that do not fit the fields of obj, and tells whether there were any.
func (r *report) wrongTypes(obj any, js []byte) bool {
	var value any
	if json.Unmarshal(js, &value) != nil {
		return false
	}
	before := len(r.problems)
	r.fits("", reflect.TypeOf(obj), value)
	return len(r.problems) > before
}

func (r *report) fits(at path, t reflect.Type, value any) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if value == nil || at != "" && reflect.PointerTo(t).Implements(unmarshaler) {
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		if fields, ok := r.want(at, value, "an object").(map[string]any); ok {
			r.structFits(at, t, fields)
		}
	case reflect.Map:
		if fields, ok := r.want(at, value, "an object").(map[string]any); ok {
			for _, k := range slices.Sorted(maps.Keys(fields)) {
				r.fits(at.key(k), t.Elem(), fields[k])
			}
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			r.want(at, value, "a string")
			return
		}
		items, _ := r.want(at, value, "a list").([]any)
		for i, item := range items {
			r.fits(at.index(i), t.Elem(), item)
		}
	case reflect.String:
		r.want(at, value, "a string")
	case reflect.Bool:
		r.want(at, value, "true or false")
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		r.want(at, value, "a number")
	}
}

// structFits descends into the fields that a document has; embedded structs have theirs in the same object.
func (r *report) structFits(at path, t reflect.Type, fields map[string]any) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && (name == "" || strings.Contains(options, "inline")) {
			r.structFits(at, f.Type, fields)
			continue
		}
		if value, ok := fields[name]; ok {
			r.fits(at.at(name), f.Type, value)
		}
	}
}

// want reports a value that is not of the JSON type named, and returns it.
func (r *report) want(at path, value any, kind string) any {
	if got := jsonType(value); got != kind {
		r.errorf(at, "must be %s, got %s", kind, got)
	}
	return value
}

func jsonType(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case bool:
		return "true or false"
	case float64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "null"
}

// message reports what protojson would not take: fields that the message does not have and values of the wrong type.
func (r *report) message(at path, m protoreflect.MessageDescriptor, value any) {
	if value == nil || m.FullName().Parent() == "google.protobuf" {
		return
	}
	fields, ok := r.want(at, value, "an object").(map[string]any)
	if !ok {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f := m.Fields().ByJSONName(name)
		if f == nil {
			f = m.Fields().ByTextName(name)
		}
		if f == nil {
			r.errorf(at.at(name), "unknown field")
			continue
		}
		r.field(at.at(name), f, fields[name])
	}
}

func (r *report) field(at path, f protoreflect.FieldDescriptor, value any) {
	switch {
	case value == nil:
	case f.IsMap():
		entries, _ := r.want(at, value, "an object").(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(entries)) {
			r.single(at.key(k), f.MapValue(), entries[k])
		}
	case f.IsList():
		items, _ := r.want(at, value, "a list").([]any)
		for i, item := range items {
			if item == nil {
				r.errorf(at.index(i), "must not be null")
				continue
			}
			r.single(at.index(i), f, item)
		}
	default:
		r.single(at, f, value)
	}
}

func (r *report) single(at path, f protoreflect.FieldDescriptor, value any) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		r.message(at, f.Message(), value)
	case protoreflect.StringKind:
		r.want(at, value, "a string")
	case protoreflect.BoolKind:
		r.want(at, value, "true or false")
	case protoreflect.EnumKind:
		r.enum(at, f.Enum().Values(), value)
	default:
		text, isText := value.(string)
		if _, err := strconv.ParseFloat(text, 64); !isText || err != nil { // protobuf takes numbers in quotes as well
			r.want(at, value, "a number")
		}
	}
}

func (r *report) enum(at path, values protoreflect.EnumValueDescriptors, value any) {
	if _, isNumber := value.(float64); isNumber {
		return
	}
	text, ok := r.want(at, value, "a string").(string)
	if !ok {
		return
	}
	names := make([]string, 0, values.Len())
	for i := range values.Len() {
		names = append(names, string(values.Get(i).Name()))
	}
	r.oneOf(at, text, names...)
}
