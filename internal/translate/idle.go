package translate

import (
	"reflect"
	"strings"
)

// idleFields are the idle entries of each kind, as steps.
var idleFields = func() map[string][]idleField {
	byKind := map[string][]idleField{}
	for _, k := range fields {
		for _, f := range k.Fields {
			if f.Use == Idle {
				byKind[k.Kind] = append(byKind[k.Kind], idleField{f, strings.Split(f.Path, ".")})
			}
		}
	}
	return byKind
}()

type idleField struct {
	Field
	steps []string
}

// warnIdle tells of every field of obj that is set and does nothing.
func warnIdle(r *report, obj Object) {
	for _, f := range idleFields[r.object.Kind] {
		f.warn(r, "", f.steps, reflect.ValueOf(obj).Elem())
	}
}

func (f idleField) warn(r *report, at path, steps []string, v reflect.Value) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.IsZero() {
		return
	}
	if len(steps) == 0 {
		if v.Kind() != reflect.String || v.String() != f.Default {
			r.warnf(at, "does nothing here: %s", f.Note)
		}
		return
	}
	name, isList := strings.CutSuffix(steps[0], "[]")
	v = fieldByName(v, name)
	if !isList {
		f.warn(r, at.at(name), steps[1:], v)
		return
	}
	for i := range v.Len() {
		f.warn(r, at.at(name).index(i), steps[1:], v.Index(i))
	}
}

// fieldByName finds the field of a struct that a document calls name, embedded ones included. The table of fields names
// only fields that are there; a test sees to it.
func fieldByName(v reflect.Value, name string) reflect.Value {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		if documentName(f) == name {
			return v.Field(i)
		}
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			if inner := fieldByName(v.Field(i), name); inner.IsValid() {
				return inner
			}
		}
	}
	return reflect.Value{}
}

// documentName is what a field is called in documents. Generated protobuf structs say it in their protobuf tag; their json
// tag has the proto name.
func documentName(f reflect.StructField) string {
	for part := range strings.SplitSeq(f.Tag.Get("protobuf"), ",") {
		if name, ok := strings.CutPrefix(part, "json="); ok {
			return name
		}
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
