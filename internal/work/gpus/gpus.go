// Package gpus gives the GPUs of a host to members of jobs, none to two at a time.
package gpus

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Pool has the GPUs of a host. It is safe for concurrent use; the zero value has none.
type Pool struct {
	Names []string // as they are named where members are given them

	giving sync.Mutex
}

// Give calls use with n GPUs that none of those has which taken tells, and returns its error. Nobody else is given any until then: from then on taken is to
// tell them. Without n it is called with none.
func (p *Pool) Give(n int, taken func() ([]string, error), use func(names []string) error) error {
	if n == 0 {
		return use(nil)
	}
	p.giving.Lock()
	defer p.giving.Unlock()
	others, err := taken()
	if err != nil {
		return err
	}
	names, err := free(p.Names, others, n)
	if err != nil {
		return err
	}
	return use(names)
}

// free are the first GPUs of a host that no member has. A leader gives a host no more members than it has GPUs for, unless it offered others
// before its SWOP was restarted. One that a member has by a name that is none now may be any of them.
func free(all, taken []string, n int) ([]string, error) {
	for _, g := range taken {
		if g != "" && !slices.Contains(all, g) {
			return nil, fmt.Errorf("it needs GPUs, and another member has GPU %.120s, which this host's SWOP, started anew, sees no more or by another name: start the SWOP with the CUDA_VISIBLE_DEVICES that it had, or run the job again when that member has ended", g)
		}
	}
	left := slices.DeleteFunc(slices.Clone(all), func(g string) bool { return slices.Contains(taken, g) })
	if len(left) < n {
		return nil, fmt.Errorf("it needs %d GPUs, and this host has %d left of %d, as its SWOP sees them: run the job again, and see on the host: nvidia-smi -L", n, len(left), len(all))
	}
	return left[:n], nil
}

// Env has a process see these GPUs and no other. Unless the host's owner has numbered them otherwise for its SWOP, they are numbered as nvidia-smi
// does.
func Env(gpus []string, getenv func(string) string) []string {
	env := []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(gpus, ",")}
	if getenv("CUDA_VISIBLE_DEVICES") == "" {
		env = append(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID")
	}
	return env
}
