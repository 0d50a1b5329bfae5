package upload

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/child"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/work"
)

const (
	program   = "rclone"
	killAfter = 5 * time.Second // that it has between the request to end and the end
	maxSaid   = 16 << 10        // bytes of what it prints that are looked at for its last words
)

// options are the same for each copy. What differs from host to host is in rclone's own configuration, and in the variables of the SWOP. A file that is
// written to meanwhile, such as a log, is copied as long as it was at the beginning.
var options = []string{"--ask-password=false", "--stats=0", "--local-no-check-updated"}

// again has files copied that seem to be at the target already. Where that keeps no times of files, rclone tells a file from the one there by the size
// alone, and weights that are written anew have the size that they had. --checksum is of no use: few of these targets have checksums.
const again = "--ignore-times"

// The file that is put to where nothing was copied yet. Every copy may find it there: a key need not delete.
const (
	marker     = ".swarm"
	markerText = "swarmd copies to here what a member of a job leaves.\n"
)

// rclone makes a copy. Whatever it calls is ended, with all that this has started, when ctx does, and when this process does, however.
func rclone(ctx context.Context, x Copy) error {
	if x.First {
		if err := call(ctx, strings.NewReader(markerText), "rcat", "--", placeAt(x.To, marker)); err != nil {
			return err
		}
	}
	words := []string{"copy", "--", x.From, x.To}
	if x.All {
		words = slices.Insert(words, 1, again)
	}
	return call(ctx, nil, words...)
}

// call calls rclone.
func call(ctx context.Context, in io.Reader, words ...string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return &failure{words: "its host has no " + program + " in the PATH of its SWOP: install it there, such as by apt-get install " + program, said: err.Error()}
	}
	cmd := exec.Command(path, slices.Concat(options, words)...) //nolint:noctx // it is ended below
	cmd.Stdin = in
	said, code := "", 0
	p, err := child.Start(cmd, child.Output{Stdout: func(r io.Reader) { said = lastWords(r) }}, func(s *os.ProcessState) { code, _ = child.ExitCode(s) })
	if err != nil {
		return &failure{words: "its host can't start " + program + ": see its SWOP's log", said: err.Error()}
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(killAfter)
		return context.Cause(ctx)
	}
	if code != 0 {
		return &failure{words: fmt.Sprintf("%s ended with code %d: see its SWOP's log, and try %s there", program, code, program), said: said}
	}
	return nil
}

var (
	// stamp begins a line of rclone's.
	stamp = regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d (?:[A-Z]+ *: )?`)
	// unable are words of rclone's before those of a server.
	unable = regexp.MustCompile(`^Failed to \w+: `)
)

// maxCode bounds the beginning of an error of several lines, in bytes: beside what is said of the member there is room for no more.
const maxCode = 80

// lastWords reads what a program prints, and returns the last error of it in a line. One of several lines, as of S3, says at its beginning what is wrong,
// and then which request that was; one of a line at its end.
func lastWords(r io.Reader) string {
	var last []byte
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		if last = append(last, buf[:n]...); len(last) > maxSaid {
			last = append([]byte(nil), last[len(last)-maxSaid:]...)
		}
		if err != nil {
			break
		}
	}
	lines := strings.Split(strings.TrimSpace(string(last)), "\n")
	at := len(lines) - 1
	for i, l := range slices.Backward(lines) {
		if stamp.MatchString(l) {
			at = i
			break
		}
	}
	line := strings.TrimSpace(stamp.ReplaceAllString(lines[at], ""))
	if at < len(lines)-1 {
		line = text.Clip(unable.ReplaceAllString(line, ""), maxCode)
	}
	return work.LastLines([]string{line})
}
