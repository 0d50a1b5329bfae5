package runner

import (
	"context"
	"slices"
	"testing"
)

// startedWith is a runtime that notes what a program is started with.
type startedWith struct{ env []string }

func (*startedWith) name() string      { return "" }
func (*startedWith) isolation() string { return "" }

func (s *startedWith) start(_ context.Context, env []string) (Running, error) {
	s.env = env
	return nil, nil //nolint:nilnil // nobody looks at it
}

// TestInterfacesThatAreNamed holds that rank 0 has the interface that its user has named, and else what all ranks are told.
func TestInterfacesThatAreNamed(t *testing.T) {
	env := []string{"RANK=0", "MASTER_PORT=29400", "GLOO_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=eth0"}
	for _, tt := range []struct{ said, want []string }{
		{nil, env},
		{[]string{"GLOO_SOCKET_IFNAME=ib0", "MASTER_PORT=1", "NCCL_SOCKET_IFNAME_X=1"}, []string{"RANK=0", "MASTER_PORT=29400", "NCCL_SOCKET_IFNAME=eth0"}},
	} {
		how := &startedWith{}
		r := &Runner{how: how, cfg: Config{Spec: Spec{Env: tt.said}}}
		if _, err := r.first(nil).Start(t.Context(), env); err != nil || !slices.Equal(how.env, tt.want) {
			t.Errorf("%q: started with %q, %v; want %q", tt.said, how.env, err, tt.want)
		}
	}
}
