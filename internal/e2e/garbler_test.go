package e2e_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"
)

// garbler is a program that keeps each merged weight file open for writing, and spoils it as soon as its node takes it back to
// merge into.
type garbler struct {
	dir     string
	held    map[string]*os.File
	spoiled int
}

// run spoils until ctx ends, and returns how many files it has spoiled.
func (g *garbler) run(ctx context.Context) int {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		for _, name := range []string{"merged-0", "merged-1"} {
			g.look(filepath.Join(g.dir, name))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			for _, f := range g.held {
				_ = f.Close()
			}
			return g.spoiled
		}
	}
}

func (g *garbler) look(path string) {
	f := g.held[path]
	if f == nil {
		if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
			g.held[path] = f
		}
		return
	}
	own, err := f.Stat()
	if there, lErr := os.Lstat(path); err != nil || lErr == nil && os.SameFile(own, there) {
		return
	}
	if g.spoiled++; g.spoiled%2 == 0 {
		_ = f.Truncate(own.Size() / 2)
	} else {
		_, _ = f.WriteAt(bytes.Repeat([]byte{0x7b}, int(own.Size())), 0)
	}
	_ = f.Close()
	delete(g.held, path)
}
