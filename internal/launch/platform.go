package launch

import (
	"io"
	"os"
	"strings"
)

// maxSource is how much of a program is looked at, in bytes.
const maxSource = 1 << 20

// PlatformOf is the platform that a program's file names by what it imports: TF or PYT; empty: none, or it can't be read.
func PlatformOf(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSource))
	if err != nil {
		return ""
	}
	for _, fw := range [][2]string{{"tensorflow", "TF"}, {"torch", "PYT"}} {
		for line := range strings.Lines(string(raw)) {
			words := strings.Fields(line)
			if len(words) > 1 && (words[0] == "import" || words[0] == "from") && strings.HasPrefix(words[1], fw[0]) {
				return fw[1]
			}
		}
	}
	return ""
}
