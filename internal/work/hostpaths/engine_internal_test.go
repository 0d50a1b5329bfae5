package hostpaths

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/pkg/stdcopy"
)

// crew are the helpers of an engine, which are this process: each has the looks of a Here, and is listened to as a container is.
type crew struct {
	until  <-chan struct{} // places answer again
	places []string

	mu      sync.Mutex
	sent    int
	live    int
	args    []string // of the last one
	removed int
}

func (c *crew) send(ctx context.Context, args []string, sent func(id string)) (*helper, error) {
	c.mu.Lock()
	c.sent, c.live, c.args = c.sent+1, c.live+1, args
	sent(fmt.Sprint(c.sent))
	c.mu.Unlock()
	stdin, closes := io.Pipe()
	output, writes := io.Pipe()
	go func() {
		hangs(c.until, c.places...).serve(context.Background(), args, stdin, stdcopy.NewStdWriter(writes, stdcopy.Stdout), stdcopy.NewStdWriter(writes, stdcopy.Stderr))
		_ = writes.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.live--
	}()
	return hear(output, func() {
		_, _ = closes.Close(), output.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.removed++
	}), nil
}

// count is how many helpers were sent, how many of them live, and how many were removed.
func (c *crew) count() [3]int {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return [3]int{c.sent, c.live, c.removed}
}

// TestAPathOfAnEnginesHostThatDoesNotAnswer has one helper wait for it. Who asks for it again is told at once, as is who is led there by a
// link, and others are in nobody's way. When it answers it is looked at again, and nothing is left.
func TestAPathOfAnEnginesHostThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		c := &crew{until: until, places: []string{"/mnt/dead"}}
		r := &Engine{send: c.send}
		ask := func(name string) error {
			got, err := r.Resolve(t.Context(), []string{"/a", name})
			if err == nil && got[name].At != name {
				t.Errorf("%s leads to %v", name, got)
			}
			return err
		}
		began := time.Now()
		if err := ask("/mnt/dead/x"); err == nil || !strings.Contains(err.Error(), `"/mnt/dead": no answer within 10s`) || time.Since(began) != lookTime {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		for range 50 { // more than there may be helpers
			if err := ask("/mnt/dead/y"); !errors.Is(err, errStuck) {
				t.Fatal(err)
			}
		}
		if got := c.count(); got != [3]int{1, 1, 0} {
			t.Errorf("sent, live and removed: %v", got)
		}
		if err := ask("/mnt/../mnt/dead"); err == nil || !strings.Contains(err.Error(), "a look before is stuck there") { // by another way
			t.Error(err)
		}
		if err := ask("/mnt/live"); err != nil || !slices.Equal(c.args, []string{notAt + "/mnt/dead", "/a", "/mnt/live"}) {
			t.Errorf("%v, by %q", err, c.args)
		}
		if got := c.count(); got != [3]int{3, 1, 2} || time.Since(began) != lookTime {
			t.Errorf("sent, live and removed: %v, after %v", got, time.Since(began))
		}
		time.Sleep(time.Hour)
		close(until)
		synctest.Wait()
		if err := ask("/mnt/dead/x"); err != nil {
			t.Errorf("once it answers: %v", err)
		}
		if got := c.count(); got != [3]int{4, 0, 4} {
			t.Errorf("sent, live and removed: %v", got)
		}
	})
}

// TestHelpersAreBounded: 4 look at a time, and 16 are stuck at most, whoever asks for what.
func TestHelpersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		c := &crew{until: until}
		for i := range 100 {
			c.places = append(c.places, fmt.Sprintf("/mnt%d", i))
		}
		r := &Engine{send: c.send}
		for range 3 {
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() {
					if _, err := r.Resolve(t.Context(), []string{fmt.Sprintf("/mnt%d", i)}); err == nil {
						t.Error("a place that does not answer does")
					}
				})
			}
			all.Wait()
			if got := c.count(); got[1] > maxStuck+maxLooks {
				t.Errorf("sent, live and removed: %v", got)
			}
		}
		if got := c.count(); got[1] < maxStuck {
			t.Errorf("%d are stuck: the test tells nothing", got[1])
		}
		close(until)
		if got := c.count(); got[1] != 0 || got[0] != got[2] {
			t.Errorf("sent, live and removed: %v", got)
		}
	})
}

// TestAHelperEndsWithWhoeverListens, as when a SWOP is killed.
func TestAHelperEndsWithWhoeverListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		defer close(until)
		stdin, closes := io.Pipe()
		said, says := io.Pipe()
		ended := make(chan int)
		go func() {
			ended <- hangs(until, "/mnt/dead").serve(t.Context(), []string{"/mnt/dead"}, stdin, says, io.Discard)
		}()
		if line, err := bufio.NewReader(said).ReadString('\n'); line != "{\"stuck\":\"/mnt/dead\"}\n" {
			t.Errorf("it says %s, %v", line, err)
		}
		select {
		case <-ended:
			t.Error("it has ended, and the next one would look there again")
		case <-time.After(time.Hour):
		}
		_ = closes.Close()
		if rc := <-ended; rc != 0 {
			t.Errorf("exit code %d", rc)
		}
	})
}

// TestWhatAHelperSays is held to what was asked, also the longest answer that there can be.
func TestWhatAHelperSays(t *testing.T) {
	whole, names := answer{Leads: map[string]Lead{}}, []string{}
	for i := range maxPaths {
		name := fmt.Sprintf("/%02d", i) + strings.Repeat("\x01", maxBytes-3)
		whole.Leads[name] = Lead{At: name, Why: strings.Repeat("\x01", 100)}
		names = append(names, name)
	}
	raw, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	says := func(stdout, stderr string) (said answer) {
		var b bytes.Buffer
		_, _ = io.WriteString(stdcopy.NewStdWriter(&b, stdcopy.Stdout), stdout)
		_, _ = io.WriteString(stdcopy.NewStdWriter(&b, stdcopy.Stderr), stderr)
		return <-hear(&b, func() {}).said
	}
	if said := says(string(raw)+"\n", ""); said.check(names) != nil || len(said.Leads) != maxPaths {
		t.Errorf("the longest answer: %d, %v", len(said.Leads), said.check(names))
	}
	for _, tt := range []struct{ stdout, stderr, want string }{
		{"", "", "its image gave no answer, or that of another release: EOF"},
		{"", strings.Repeat("\x1b[31mno such program\n", 1e4), "no such program"},
		{`{"/a":{"at":"/a"}}`, "", "or that of another release: json: unknown field"},
		{`{"leads":{"/b":{"at":"/b"}}}`, "", `no answer for "/a"`},
		{`{"leads":{"/a":{"at":"/b/.."}}}`, "", `no answer for "/a"`},
		{`{"stuck":"/"}`, "", "no place that is stuck"},
		{`{"stuck":"/a/../"}`, "", "no place that is stuck"},
		{`{"err":"look at path\nx: stale"}`, "", "look at path x: stale"},
		{`{"leads":{"/a":{"at":"` + strings.Repeat("a", maxAnswer), "", "its image gave no answer"},
	} {
		said := says(tt.stdout, tt.stderr)
		if err := said.check([]string{"/a"}); err == nil || !strings.Contains(err.Error(), tt.want) || strings.ContainsAny(err.Error(), "\x1b\n") || len(err.Error()) > 2*maxBytes {
			t.Errorf("%.80s, %.80s: %.200v, want %s", tt.stdout, tt.stderr, err, tt.want)
		}
	}
}
