// Package pattern says in text which SPIFFE IDs are meant, for lists of who may take part. It is pure: the replicated state
// decides by it, and so does an SL by itself.
package pattern

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds of patterns.
const (
	MaxBytes    = 256 // of one pattern
	MaxSegments = 16  // of one pattern
	MaxList     = 64  // patterns of a list
)

const (
	scheme = "spiffe://"
	one    = "*"  // any one segment
	rest   = "**" // any number of segments, none included; the last one only
	// maxID bounds what is compared: no SPIFFE ID is longer.
	maxID = 2048
)

// Pattern is spiffe://DOMAIN/SEGMENT/…: each segment is compared as it is, * stands for any one segment, and ** at the end for
// any number of them, none included. So spiffe://b.example/swarm/sl/* is every SL of b.example with an entry of its own, and
// spiffe://b.example/swarm/sl/** all its SLs, those of a shared entry too. The trust domain is always named. The zero value
// matches nothing.
type Pattern struct {
	domain   string
	segments []string
	rest     bool
}

// Parse reads a pattern.
func Parse(s string) (Pattern, error) {
	wrong := func(why string) (Pattern, error) {
		return Pattern{}, fmt.Errorf("SPIFFE ID pattern %.80q: %s", s, why)
	}
	body, ok := strings.CutPrefix(s, scheme)
	parts := strings.Split(body, "/")
	switch {
	case len(s) > MaxBytes:
		return wrong(fmt.Sprintf("%d bytes, at most %d", len(s), MaxBytes))
	case !ok:
		return wrong("want spiffe://DOMAIN/swarm/sl/NAME, where * stands for one segment and a last ** for all that follows")
	case strings.Contains(parts[0], "*"):
		return wrong("name the trust domain: * stands for segments of the path only")
	case !valid(parts[0], false):
		return wrong(fmt.Sprintf("%q is no trust domain", parts[0]))
	case len(parts) < 2:
		return wrong("it has no path: end it with /** to mean all of a trust domain")
	case len(parts)-1 > MaxSegments:
		return wrong(fmt.Sprintf("%d segments, at most %d", len(parts)-1, MaxSegments))
	}
	p := Pattern{domain: parts[0], segments: parts[1:]}
	if last := len(p.segments) - 1; p.segments[last] == rest {
		p.segments, p.rest = p.segments[:last], true
	}
	for _, segment := range p.segments {
		switch {
		case segment == one || valid(segment, true):
		case segment == rest:
			return wrong("** must be the last segment")
		case strings.Contains(segment, "*"):
			return wrong(fmt.Sprintf("in %q the * must be the whole segment", segment))
		default:
			return wrong(fmt.Sprintf("%q is no segment of a SPIFFE ID's path", segment))
		}
	}
	return p, nil
}

// valid reports whether a part of a SPIFFE ID may be so, as the SPIFFE standard has it.
func valid(part string, upper bool) bool {
	for i := range len(part) {
		b := part[i]
		ok := b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '-' || b == '.' || b == '_' || upper && b >= 'A' && b <= 'Z'
		if !ok {
			return false
		}
	}
	return part != "" && part != "." && part != ".."
}

// String returns the text that Parse takes.
func (p Pattern) String() string {
	if p.domain == "" {
		return ""
	}
	parts := append([]string{scheme + p.domain}, p.segments...)
	if p.rest {
		parts = append(parts, rest)
	}
	return strings.Join(parts, "/")
}

// Match reports whether a SPIFFE ID is meant. What is no SPIFFE ID is not.
func (p Pattern) Match(id string) bool {
	body, ok := strings.CutPrefix(id, scheme)
	if !ok || len(id) > maxID || p.domain == "" {
		return false
	}
	parts := strings.Split(body, "/")
	path := parts[1:]
	if parts[0] != p.domain || len(path) < len(p.segments) || len(path) > len(p.segments) && !p.rest {
		return false
	}
	for i, segment := range path {
		if !valid(segment, true) || i < len(p.segments) && p.segments[i] != one && p.segments[i] != segment {
			return false
		}
	}
	return true
}

// Under reports whether there are SPIFFE IDs that begin with this path and match.
func (p Pattern) Under(path ...string) bool {
	if p.domain == "" || len(p.segments) < len(path) && !p.rest {
		return false
	}
	for i, segment := range p.segments[:min(len(path), len(p.segments))] {
		if segment != one && segment != path[i] {
			return false
		}
	}
	return true
}

// List is several patterns: what one of them matches is meant.
type List []Pattern

// ParseList reads patterns.
func ParseList(texts []string) (List, error) {
	if len(texts) > MaxList {
		return nil, fmt.Errorf("%d SPIFFE ID patterns, at most %d", len(texts), MaxList)
	}
	var l List
	for _, text := range texts {
		p, err := Parse(text)
		if err != nil {
			return nil, err
		}
		l = append(l, p)
	}
	return l, nil
}

// Match reports whether one of the patterns matches.
func (l List) Match(id string) bool {
	return slices.ContainsFunc(l, func(p Pattern) bool { return p.Match(id) })
}

// Strings returns the patterns' texts.
func (l List) Strings() []string {
	texts := make([]string, len(l))
	for i, p := range l {
		texts[i] = p.String()
	}
	return texts
}

// String joins the patterns with commas.
func (l List) String() string { return strings.Join(l.Strings(), ", ") }
