package swci

import (
	"reflect"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/swci/top"
)

// TestTopKnowsDocuments: each key that the screen reads is one of the document's, and means a value of the same kind.
func TestTopKnowsDocuments(t *testing.T) {
	kinds := map[string]reflect.Type{}
	for _, k := range documentKinds() {
		kinds[k.name] = reflect.TypeOf(k.value)
	}
	for name, holder := range map[string]any{
		"swarm": top.Swarm{}, "nodes": top.Nodes{}, "health": top.Health{}, "contracts": top.Contracts{}, "contract/": top.Status{}, "explain/": top.Explain{}, "history/": top.History{},
	} {
		if kinds[name] == nil {
			t.Errorf("there is no document %s", name)
			continue
		}
		sameKeys(t, name, reflect.TypeOf(holder), kinds[name])
	}
}

// sameKeys compares what the screen reads with what a document holds.
func sameKeys(t *testing.T, at string, reads, holds reflect.Type) {
	t.Helper()
	for _, deeper := range []reflect.Kind{reflect.Pointer, reflect.Slice} {
		if reads.Kind() == deeper && holds.Kind() == deeper {
			sameKeys(t, at, reads.Elem(), holds.Elem())
			return
		}
	}
	if reads.Kind() != reflect.Struct || holds.Kind() != reflect.Struct {
		number := func(k reflect.Type) bool { return k.ConvertibleTo(reflect.TypeFor[float64]()) }
		if reads.Kind() != holds.Kind() && (!number(reads) || !number(holds)) {
			t.Errorf("%s is read as %s, and is %s", at, reads, holds)
		}
		return
	}
	keys := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(holds) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys[key] = f.Type
	}
	for i := range reads.NumField() {
		f := reads.Field(i)
		if !f.IsExported() {
			continue // the screen's own
		}
		key := f.Tag.Get("json")
		if keys[key] == nil {
			t.Errorf("%s has no key %s", at, key)
			continue
		}
		sameKeys(t, at+"."+key, f.Type, keys[key])
	}
}
