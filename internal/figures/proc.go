package figures

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// maxFile bounds what is read of one file of /proc; those that are read have a few KiB.
const maxFile = 64 << 10

// proc is where the kernel says how the machine fares.
type proc string

// fields are the words of the lines of a file: none if it can't be read.
func (p proc) fields(name string) (lines [][][]byte) {
	f, err := os.Open(filepath.Join(string(p), name))
	if err != nil {
		return nil
	}
	defer f.Close()
	all, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(all) {
		lines = append(lines, bytes.Fields(line))
	}
	return lines
}

// kibibytes is a line such as "MemTotal: 16303292 kB" of a file, in bytes.
func (p proc) kibibytes(file, key string) *uint64 {
	for _, words := range p.fields(file) {
		if len(words) != 3 || string(words[0]) != key+":" || string(words[2]) != "kB" {
			continue
		}
		if kib, err := strconv.ParseUint(string(words[1]), 10, 43); err == nil {
			return new(kib << 10)
		}
	}
	return nil
}

// load has the means over 1, 5 and 15 minutes.
func (p proc) load() (means [3]*float64) {
	lines := p.fields("loadavg")
	if len(lines) == 0 || len(lines[0]) < len(means) {
		return means
	}
	for i := range means {
		if x, err := strconv.ParseFloat(string(lines[0][i]), 64); err == nil && x >= 0 && x <= maxLoad {
			means[i] = &x
		}
	}
	return means
}
