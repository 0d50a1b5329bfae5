package launch

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of what mentions looks at: it lies in a directory that may hold models and data too.
const (
	mostSeen     = 10_000   // entries of directories
	mostRead     = 32 << 20 // bytes, of all files
	mostReadFile = 1 << 20  // bytes of one file
)

// textFiles are the suffixes of files that programs consist of, or read their settings from.
var textFiles = []string{".py", ".sh", ".json", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".conf", ".env"}

// mentions reports whether a text stands in a program, or in a file in or below dir that could be a part of the program or its
// settings. What is near the top is read first; of very many or large files some are not read.
func mentions(program, dir, text string) bool {
	left := int64(mostRead)
	if contains(program, text, &left) {
		return true
	}
	seen := 0
	for dirs := []string{dir}; len(dirs) > 0; dirs = dirs[1:] {
		entries, _ := os.ReadDir(dirs[0]) // what can not be read is no part of the program
		for _, e := range entries {
			if seen++; seen > mostSeen {
				return false
			}
			at := filepath.Join(dirs[0], e.Name())
			switch {
			case e.IsDir() && !strings.HasPrefix(e.Name(), ".") && e.Name() != "__pycache__":
				dirs = append(dirs, at)
			case e.Type().IsRegular() && slices.Contains(textFiles, filepath.Ext(e.Name())) && contains(at, text, &left):
				return true
			}
		}
	}
	return false
}

// contains reports whether a text stands at the beginning of a file, and takes what it read from left.
func contains(path, text string, left *int64) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	content, _ := io.ReadAll(io.LimitReader(file, min(mostReadFile, *left)))
	*left -= int64(len(content))
	return bytes.Contains(content, []byte(text))
}
