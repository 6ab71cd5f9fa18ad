package translate

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const fieldsPage = "../../docs/fields.md"

// TestFieldsPage compares docs/fields.md with the table (-update writes it).
func TestFieldsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Fields: what is read, what is not

This page is made from the table that the translation itself uses (` + "`internal/translate/fields.go`" + `); edit that one.
An entry speaks for all fields below it that have none of their own.

| word | meaning |
|---|---|
| used | in effect |
| refused | cannot be left out without changing what is meant: what carries it fails closed and says so |
| does nothing | legal, but nothing acts on it; ` + "`waypoint validate`" + ` warns where it is set |
| for others | for the cluster, ztunnel, the controller that deploys waypoints, or for people |

A field that a kind does not have, or a value that an API server would refuse, rejects the object. Kinds that are not on this
page are not read. Of Pod, Node and Namespace only what is read is listed.
`)
	for _, k := range Fields() {
		kind := kinds[slices.IndexFunc(kinds, func(c Kind) bool { return c.Name == k.Kind })]
		group := kind.Group
		if group == groupCore {
			group = "core"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s; versions %s\n\n| field | use | note |\n|---|---|---|\n", k.Kind, group, strings.Join(kind.Versions, ", "))
		for _, f := range k.Fields {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Path, f.Use, f.Note)
		}
	}
	checkGolden(t, fieldsPage, b.String())
	if _, err := os.Stat(fieldsPage); err != nil {
		t.Error(err)
	}
}

// TestFieldsAreWhole holds the table against the Go types: every field of a whole kind is covered, every entry exists, every
// kind is there.
func TestFieldsAreWhole(t *testing.T) {
	for _, kind := range kinds {
		i := slices.IndexFunc(fields, func(k KindFields) bool { return k.Kind == kind.Name })
		if i < 0 {
			t.Errorf("%s is not in the table", kind.Name)
			continue
		}
		leaves := leavesOf(kind)
		for _, f := range fields[i].Fields {
			if strings.HasPrefix(f.Path, "metadata.") {
				continue
			}
			if !slices.ContainsFunc(leaves, func(leaf string) bool { return covers(f.Path, leaf) }) {
				t.Errorf("%s has no field %s", kind.Name, f.Path)
			}
		}
		for _, leaf := range leaves {
			if fields[i].Whole && !strings.HasPrefix(leaf, "status") &&
				!slices.ContainsFunc(fields[i].Fields, func(f Field) bool { return covers(f.Path, leaf) }) {
				t.Errorf("%s: nothing is said of %s", kind.Name, leaf)
			}
		}
	}
}

// covers tells whether an entry speaks of a field: it is the field, or one above it.
func covers(entry, leaf string) bool {
	rest, ok := strings.CutPrefix(leaf, strings.TrimSuffix(entry, "[]"))
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func leavesOf(kind Kind) []string {
	var leaves []string
	walk(reflect.TypeOf(kind.new()), "", &leaves)
	return slices.DeleteFunc(leaves, func(leaf string) bool {
		return strings.HasPrefix(leaf, "metadata") || leaf == "kind" || leaf == "apiVersion"
	})
}

func walk(t reflect.Type, at path, leaves *[]string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		walk(t.Elem(), at+"[]", leaves)
		return
	case t.Kind() != reflect.Struct, at != "" && t.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1" && t.Name() == "Time",
		at != "" && isQuantity(t):
		*leaves = append(*leaves, string(at))
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		switch name := documentName(f); {
		case f.Anonymous && name != "metadata":
			walk(f.Type, at, leaves)
		case f.Tag.Get("protobuf_oneof") == "action_detail": // the members of a oneof are not to be found by reflection
			*leaves = append(*leaves, string(at.at("provider")))
		case name != "" && name != "-" && f.IsExported():
			walk(f.Type, at.at(name), leaves)
		}
	}
}

// isQuantity: types of apimachinery that have a JSON form of their own. Istio's messages have one too, but are walked.
func isQuantity(t reflect.Type) bool {
	return strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery") && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// TestIdleFields: what does nothing is warned of where it is set, and only there.
func TestIdleFields(t *testing.T) {
	tests := []struct {
		doc  string
		want []string
	}{
		{`apiVersion: v1
kind: Service
metadata: {name: a}
spec: {sessionAffinity: None, externalTrafficPolicy: Local, ports: [{port: 80, nodePort: 30080}]}`, nil},
		{`apiVersion: v1
kind: Service
metadata: {name: a}
spec: {sessionAffinity: ClientIP, ports: [{port: 80}]}`, []string{"spec.sessionAffinity"}},
		{`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: a}
spec: {useDefaultGateways: All}`, []string{"spec.useDefaultGateways"}},
		{
			`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: a}
spec:
  gatewayClassName: waypoint
  listeners:
  - {name: a, port: 15008, protocol: HBONE}
  - {name: b, port: 15008, protocol: HBONE, hostname: x.example.com, tls: {mode: Passthrough}}`,
			[]string{"spec.listeners[1].hostname", "spec.listeners[1].tls"},
		},
		{`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a}
spec:
  hosts: [a.example.com]
  exportTo: ["*", "."]
  resolution: STATIC
  endpoints: [{address: 10.0.0.1}, {address: 10.0.0.2, network: n2}]`, []string{"spec.exportTo[1]", "spec.endpoints[1].network"}},
	}
	for _, tt := range tests {
		obj, err := Decode([]byte(tt.doc))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range validate(KeyOf(obj), obj) {
			if p.Severity != Warning {
				t.Errorf("%s", p)
			}
			got = append(got, p.Field)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("warned of %q, want %q", got, tt.want)
		}
	}
}
