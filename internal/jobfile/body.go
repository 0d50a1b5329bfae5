package jobfile

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// sourceBegins is the line behind which the source's files follow.
const sourceBegins = "--- source"

// base64Line is how many characters a line of a file has that is no text.
const base64Line = 76

// maxLine is how many bytes a line of a body has: tasks are written line by line, and a request has room for no longer one.
const maxLine = 16 << 10

// Encode returns the body of the job's task: the job as a file, then the files of its source, those of text as they are. A job whose source is
// still a folder has none.
func (j *Job) Encode() ([]byte, error) {
	if j.Folder != "" {
		return nil, fmt.Errorf("the source %s was not read yet", text.Line(j.Folder))
	}
	var b strings.Builder
	b.WriteString(j.Text())
	if len(j.Source) > 0 {
		if err := checkSource(j.Source); err != nil {
			return nil, fmt.Errorf("source: %w", err)
		}
		b.WriteString(sourceBegins + "\n")
		for _, f := range j.Source {
			putFile(&b, f)
		}
	}
	switch {
	case b.Len() > MaxBody:
		return nil, fmt.Errorf("the job has %d bytes when it is written out, at most %d are kept: make the source part of the image", b.Len(), MaxBody)
	case strings.Count(b.String(), "\n") > maxLines:
		return nil, fmt.Errorf("the job has more than %d lines when it is written out: make the source part of the image", maxLines)
	case longLines(b.String()):
		return nil, fmt.Errorf("a value of the job has more than %d bytes in one line: put it into a file of the source", maxLine)
	}
	return []byte(b.String()), nil
}

func putFile(b *strings.Builder, f File) {
	mode, kind, data := "644", "text", string(f.Data)
	if f.Exec {
		mode = "755"
	}
	if !plainText(data) {
		kind, data = "base64", wrapped(base64.StdEncoding.EncodeToString(f.Data))
	}
	fmt.Fprintf(b, "%s %s %d %s\n%s", mode, kind, len(f.Data), f.Path, data)
}

func longLines(s string) bool {
	for line := range strings.Lines(s) {
		if len(line) > maxLine {
			return true
		}
	}
	return false
}

// plainText reports whether lines can be kept and shown as they are.
func plainText(s string) bool {
	return (s == "" || strings.HasSuffix(s, "\n")) && utf8.ValidString(s) && !longLines(s) && !yamlfile.Hides(s)
}

func wrapped(s string) string {
	var b strings.Builder
	for s != "" {
		n := min(len(s), base64Line)
		b.WriteString(s[:n] + "\n")
		s = s[n:]
	}
	return b.String()
}

// Decode reads the body of a job's task. Its error is one line and names the body's line.
func Decode(body []byte) (*Job, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("the job has %d bytes, at most %d are read", len(body), MaxBody)
	}
	head, files, hasSource := strings.Cut("\n"+string(body), "\n"+sourceBegins+"\n")
	head = strings.TrimPrefix(head, "\n")
	j, err := Read("", []byte(head))
	switch {
	case err != nil:
		return nil, err
	case j.Folder != "":
		return nil, errors.New("the job's source is a folder of another host: its files are missing")
	case !hasSource:
		return j, nil
	}
	if j.Source, err = readFiles(files); err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	return j, checkSource(j.Source)
}

var fileHead = regexp.MustCompile(`^(644|755) (text|base64) (0|[1-9][0-9]{0,6}) ([^\n]{1,255})\n`)

func readFiles(s string) (all []File, err error) {
	for s != "" {
		m := fileHead.FindStringSubmatch(s)
		if m == nil {
			return nil, fmt.Errorf("%q is no file: write MODE text|base64 SIZE PATH", yamlfile.Excerpt(strings.SplitN(s, "\n", 2)[0]))
		}
		if len(all) == maxFiles {
			return nil, fmt.Errorf("it has more than %d files", maxFiles)
		}
		s = s[len(m[0]):]
		size, _ := strconv.Atoi(m[3])
		f := File{Path: m[4], Exec: m[1] == "755"}
		if f.Data, s, err = fileData(m[2], size, s); err != nil {
			return nil, fmt.Errorf("%s: %w", text.Line(f.Path), err)
		}
		all = append(all, f)
	}
	return all, nil
}

var errShort = errors.New("the file is shorter than its head says")

// fileData returns a file of a size, with which s begins, and what follows it. Each file has one form.
func fileData(kind string, size int, s string) (data []byte, rest string, err error) {
	if kind == "text" {
		if size > len(s) {
			return nil, "", errShort
		}
		if !plainText(s[:size]) {
			return nil, "", errors.New("it is no text: write it in base64")
		}
		return []byte(s[:size]), s[size:], nil
	}
	n := base64.StdEncoding.EncodedLen(size)
	if n += (n + base64Line - 1) / base64Line; n > len(s) {
		return nil, "", errShort
	}
	data, err = base64.StdEncoding.DecodeString(s[:n]) // which skips line feeds
	if err != nil || len(data) != size || wrapped(base64.StdEncoding.EncodeToString(data)) != s[:n] || plainText(string(data)) {
		return nil, "", errors.New("it is not in base64 as it is written, or it is text")
	}
	return data, s[n:], nil
}
