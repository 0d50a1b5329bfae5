package gpus

import (
	"fmt"
	"strings"
	"testing"
)

func TestFree(t *testing.T) {
	for _, tt := range []struct {
		all, taken []string
		n          int
		want       string
	}{
		{[]string{"0", "1", "2"}, []string{"1", ""}, 2, "[0 2] <nil>"},
		{[]string{"0"}, nil, 0, "[] <nil>"},
		{[]string{"0", "1"}, []string{"0"}, 2, "[] it needs 2 GPUs, and this host has 1 left of 2"},
		{[]string{"GPU-1", "GPU-2"}, []string{"0"}, 1, "[] it needs GPUs, and another member has GPU 0, which this host's SWOP, started anew, sees no more or by another name"},
	} {
		if got, err := free(tt.all, tt.taken, tt.n); !strings.HasPrefix(fmt.Sprint(got, " ", err), tt.want) {
			t.Errorf("%+v: %v %v", tt, got, err)
		}
	}
}
