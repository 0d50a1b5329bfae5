package invitation

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A line is PREFIX.LENGTH.FACTS.BUNDLE.CHECKSUM: LENGTH is that of what follows it, dots included, so that a line that was cut off is
// told from one that was altered.
const (
	family = "swarm-invitation-" // with its version
	prefix = family + "1"
	admits = family + "2" // the line admits an SN: versions that know 1 alone would leave that out
	newest = 2
	parts  = 5
)

// What is wrong with a line. The text of each is for its reader.
var (
	ErrNone    = errors.New("this is no invitation: want the one line that `swarmctl invite` printed, which begins with " + family + "1 or 2")
	ErrCut     = errors.New("this invitation is cut off: copy the whole line that `swarmctl invite` printed")
	ErrAltered = errors.New("this invitation was altered on its way: its checksum does not fit; copy the line again, or ask for a new one with `swarmctl invite`")
	ErrLong    = fmt.Errorf("this is no invitation: it has more than %d bytes", MaxLine)
)

// facts is the part that people could read, if they decoded it.
type facts struct {
	Nodes       []Node  `json:"nodes"`
	Token       string  `json:"token"`
	TrustDomain string  `json:"trust_domain"`
	Server      Address `json:"server"`
	SNs         []SN    `json:"sns"`
	SwarmID     string  `json:"swarm_id"`
	Expires     int64   `json:"expires"` // seconds since 1970
	Admission   []byte  `json:"admission,omitempty"`
}

var coding = base64.RawURLEncoding.Strict()

// Encode makes the line, without a newline. It fails where Check does.
func (i *Invitation) Encode() (string, error) {
	if err := i.Check(); err != nil {
		return "", fmt.Errorf("make invitation: %w", err)
	}
	raw, err := json.Marshal(facts{i.Nodes, i.Token, i.TrustDomain, i.Server, i.SNs, i.SwarmID, i.Expires.Unix(), i.Admission})
	if err != nil {
		return "", fmt.Errorf("make invitation: %w", err)
	}
	body := coding.EncodeToString(raw) + "." + coding.EncodeToString(i.Bundle)
	line := i.prefix() + "." + strconv.Itoa(len(body)+1+FingerprintLen) + "." + body
	line += "." + fingerprint("checksum", line)
	if len(line) > MaxLine {
		return "", fmt.Errorf("make invitation: it would have more than %d bytes", MaxLine)
	}
	return line, nil
}

// prefix is the format that the line needs.
func (i *Invitation) prefix() string {
	if i.Admission != nil {
		return admits
	}
	return prefix
}

// Decode reads a line. White space anywhere in it is passed over: what carries it may have wrapped it. The error is one sentence with its
// remedy, and quotes nothing of what the line holds.
func Decode(text string) (*Invitation, error) {
	if len(text) > MaxLine {
		return nil, ErrLong
	}
	line := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
	body, err := checked(line)
	if err != nil {
		return nil, err
	}
	first, second, _ := strings.Cut(body, ".")
	raw, err := coding.DecodeString(first)
	if err != nil {
		return nil, ErrAltered
	}
	bundle, err := coding.DecodeString(second)
	if err != nil {
		return nil, ErrAltered
	}
	var f facts
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields() // a later version has another prefix
	if err := d.Decode(&f); err != nil || d.More() {
		return nil, ErrNone
	}
	i := &Invitation{f.Nodes, f.Token, f.TrustDomain, f.Server, bundle, f.SNs, f.SwarmID, time.Unix(f.Expires, 0).UTC(), f.Admission}
	if err := i.Check(); err != nil {
		return nil, fmt.Errorf("this invitation can't be used: %w; ask for a new one with `swarmctl invite`", err)
	}
	if again, err := i.Encode(); err != nil || again != line { // so that an invitation has one line, and one fingerprint
		return nil, ErrNone
	}
	return i, nil
}

// checked returns what stands between length and checksum, which fit.
func checked(line string) (body string, err error) {
	head, rest, dotted := strings.Cut(line, ".")
	version, ours := strings.CutPrefix(head, family)
	n, err := strconv.ParseUint(version, 10, 16)
	switch {
	case line != "" && strings.HasPrefix(family, line):
		return "", ErrCut
	case !ours || err != nil || n == 0:
		return "", ErrNone
	case n > newest || head != prefix && head != admits:
		return "", fmt.Errorf("this invitation has format %.5s and this version of swarmd reads formats 1 and 2: update swarmd", version)
	case !dotted:
		return "", ErrCut
	}
	return sealed(line, rest)
}

// sealed is checked for what follows the prefix of a line.
func sealed(line, rest string) (body string, err error) {
	length, rest, dotted := strings.Cut(rest, ".")
	n, err := strconv.Atoi(length)
	switch {
	case !dotted:
		return "", ErrCut
	case err != nil || strconv.Itoa(n) != length:
		return "", ErrAltered
	case len(rest) < n:
		return "", ErrCut
	case len(rest) > n || strings.Count(line, ".") != parts-1 || n < FingerprintLen+1:
		return "", ErrAltered
	}
	end := len(line) - FingerprintLen - 1
	if line[end] != '.' || fingerprint("checksum", line[:end]) != line[end+1:] {
		return "", ErrAltered
	}
	return rest[:n-FingerprintLen-1], nil
}
