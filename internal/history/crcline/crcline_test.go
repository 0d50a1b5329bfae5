package crcline_test

import (
	"bytes"
	"testing"

	"github.com/swarmd/swarmd/internal/history/crcline"
)

// TestDamageIsFound: no line with a changed, missing or further byte reads.
func TestDamageIsFound(t *testing.T) {
	line := bytes.TrimSuffix(crcline.Sealed([]byte(`{"a": 1}`)), []byte("\n"))
	if data, ok := crcline.Read(line); !ok || string(data) != `{"a": 1}` {
		t.Errorf("read %q, %v", data, ok)
	}
	for i := range line {
		other := bytes.Clone(line)
		other[i] ^= 0x01
		if _, ok := crcline.Read(other); ok {
			t.Errorf("byte %d is changed, and %q reads", i, other)
		}
		if _, ok := crcline.Read(line[:i]); ok {
			t.Errorf("%q reads", line[:i])
		}
	}
	if _, ok := crcline.Read(append(bytes.Clone(line), ' ')); ok {
		t.Error("a longer line reads")
	}
}
