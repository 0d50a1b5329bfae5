package build

import (
	"io"
	"strings"
)

// Free has a builder believe how much room there is.
func (b *Builder) Free(free func(dir string) (int64, error)) { b.room.Free = free }

// Pack is what an engine builds from, of at most 16 files with 64 KiB.
func Pack(to io.Writer, files io.Reader, name, steps string) error {
	return pack(to, files, name, steps, limits{entries: 16, bytes: 1 << 16})
}

// Mark is the value of the label that steps bear.
func Mark(scope, node string) string {
	_, value, _ := strings.Cut((&Builder{cfg: Config{Scope: scope, Node: node}}).mark(), "=")
	return value
}
