package gpus

import (
	"slices"
	"testing"
)

func TestVisibleGPUs(t *testing.T) {
	const unset = "unset"
	for _, tt := range []struct {
		devices int
		visible string
		want    []string
	}{
		{0, unset, nil},
		{2, unset, []string{"0", "1"}},
		{2, "", nil},
		{4, "2, 3", []string{"2", "3"}},
		{4, "1,-1,2", []string{"1"}},
		{4, "-1", nil},
		{0, "0", nil},
		{2, "1,1", []string{"1"}},
		{2, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", []string{"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"}},
		{1, "0;1", nil},
	} {
		if got := seenOf(tt.devices, func(string) (string, bool) { return tt.visible, tt.visible != unset }); !slices.Equal(got, tt.want) {
			t.Errorf("%d devices, %q: %q, want %q", tt.devices, tt.visible, got, tt.want)
		}
	}
}
