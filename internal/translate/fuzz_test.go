package translate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// FuzzTranslate adds one document to a small mesh, from decoding to resources. It must not panic, say why it rejects, and
// give only resources that can be sent.
func FuzzTranslate(f *testing.F) {
	files, err := filepath.Glob("testdata/golden/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		input, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, doc := range strings.Split(string(input), "\n---\n") {
			f.Add([]byte(doc))
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		tr := New(testOptions)
		load(t, tr, meshBase+"\n---\n"+strings.ReplaceAll(serviceDoc(0), "s0", "a")+"\n---\n"+podDoc(0, "True"))
		obj, err := Decode(doc)
		var rejected *Rejected
		switch {
		case errors.As(err, &rejected):
			if len(rejected.Problems) == 0 {
				t.Fatal("rejected without a problem")
			}
			tr.Reject(rejected)
		case err == nil:
			tr.Set(obj)
		}
		for _, r := range tr.Update().Upserted {
			if _, err := proto.Marshal(r.Message); err != nil {
				t.Fatalf("%s cannot be sent: %v", r.Key, err)
			}
		}
	})
}
