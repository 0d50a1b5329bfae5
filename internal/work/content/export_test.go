package content

import (
	"context"
	"net/netip"
	"net/url"
	"os"

	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/unpack"
)

// Free has a filler believe how much room there is.
func (f *Filler) Free(free func(dir string) (int64, error)) { f.room.Free = free }

// ForAll refuses addresses that mean something else on each host.
func ForAll(a netip.Addr) error { return forAll(a) }

// Fetch fetches a URL into a file.
func Fetch(ctx context.Context, proxies []taskfile.Var, host bool, target string, to *os.File, most int64) (int64, string, error) {
	u, err := url.Parse(target)
	if err != nil {
		return 0, "", err
	}
	return newWeb(proxies, host).fetch(ctx, u, to, &unpack.Budget{Entries: 1, Bytes: most})
}
