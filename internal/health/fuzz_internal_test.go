package health

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// FuzzRead reads what answers on a health socket, which may be anybody's: no more than the bound, and what was read can be said
// again, as swarmd health -o json does.
func FuzzRead(f *testing.F) {
	until := time.Unix(1, 0).UTC()
	good, err := json.Marshal(Report{Healthy: true, PID: 1, Warnings: []string{"x"}, Until: &until})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, false)
	f.Add([]byte(`{"pid":1e9,"until":"x"}`), false)
	f.Add([]byte(`{"warnings":["`), true)
	f.Fuzz(func(t *testing.T, b []byte, long bool) {
		body := &counted{r: bytes.NewReader(b)}
		if long {
			body.then = strings.NewReader(strings.Repeat("x", 4*maxReport))
		}
		r, err := parse(body)
		if body.n > maxReport {
			t.Errorf("%d bytes were read", body.n)
		}
		if err != nil {
			return
		}
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	})
}

// counted reads one text, and then another.
type counted struct {
	r    *bytes.Reader
	then *strings.Reader
	n    int
}

func (c *counted) Read(p []byte) (n int, err error) {
	n, err = c.r.Read(p)
	if n == 0 && c.then != nil {
		n, err = c.then.Read(p)
	}
	c.n += n
	return n, err
}
