package engine

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/docker/docker/client"

	"github.com/swarmd/swarmd/internal/text"
)

// maxText bounds an engine's error, in bytes: it may quote what a program or a registry sent.
const maxText = 800

// Explain makes one bounded line without control characters of an engine's error and adds to it what the user can do about it.
// A nil error stays nil, and so does one that was explained before or says only that ctx ended; the rest is an *Error. What the
// error is (errors.Is, errdefs) is kept.
func Explain(err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	text := clean(err.Error())
	for _, r := range rules {
		at := r.pattern.FindStringSubmatchIndex(text)
		if at == nil {
			continue
		}
		help := string(r.pattern.ExpandString(nil, r.help, text, at))
		if r.say != "" {
			text = text[:at[0]] + string(r.pattern.ExpandString(nil, r.say, text, at)) + text[at[1]:]
		}
		return &Error{Err: &said{cut(text), err}, Help: cut(help), Stays: r.stays}
	}
	help := ""
	if client.IsErrConnectionFailed(err) {
		help = "see that an engine listens there, or name another with DOCKER_HOST"
	}
	return &Error{Err: &said{cut(text), err}, Help: help}
}

// taken is what engines say of a port that is in use.
const taken = `(?:Bind for|listen (?:tcp|udp)[46]?|failed to bind host port(?: for)?) (\S*?:(\d+))(?:(?: failed)?|(?::\S+)?/(?:tcp|udp)): (?:port is already allocated|(?:bind: )?address already in use)`

var takenPort = regexp.MustCompile(taken)

// TakenPort returns the port of the host that a container could not be published at, as another one or a process has it; 0: the error is of
// something else.
func TakenPort(err error) int {
	if err == nil {
		return 0
	}
	m := takenPort.FindStringSubmatch(shorten(err.Error(), maxRaw))
	if m == nil {
		return 0
	}
	port, _ := strconv.Atoi(m[2]) // beyond what a port can be it is none
	return port
}

// Error is an engine's error with a remedy.
type Error struct {
	Err  error
	Help string // one line, "" if nothing sensible can be said
	// Stays is why the engine is not reached before somebody corrects something on this host, in words that tell nothing of the host; "": it may
	// pass by itself.
	Stays string
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Remedy is what the user can do about it.
func (e *Error) Remedy() string { return e.Help }

// Lasts is why it does not pass by itself, for whoever is to know nothing of the host; "": it may pass.
func (e *Error) Lasts() string { return e.Stays }

// said is an error in better words.
type said struct {
	text string
	err  error
}

func (s *said) Error() string { return s.text }

func (s *said) Unwrap() error { return s.err }

// maxRaw bounds what the patterns look at, in bytes: an answer may have a megabyte.
const maxRaw = 64 << 10

var (
	ids    = regexp.MustCompile(`\b([0-9a-f]{12})[0-9a-f]{52}\b`)
	spaces = regexp.MustCompile(` {2,}`)
)

// clean makes one line: nothing that does not print (control characters, what turns the direction of text), short IDs, no
// "from daemon".
func clean(said string) string {
	said = shorten(said, maxRaw)
	said = text.Printable(said, ' ')
	said = strings.ReplaceAll(said, "Error response from daemon: ", "")
	said = ids.ReplaceAllString(said, "$1")
	return strings.TrimSpace(spaces.ReplaceAllString(said, " "))
}

func cut(said string) string { return shorten(said, maxText) }

// shorten keeps the beginning, which says what was done, and the end, which says why it failed.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	half := limit/2 - len(" … ")
	return strings.ToValidUTF8(text[:half], "") + " … " + strings.ToValidUTF8(text[len(text)-half:], "")
}
