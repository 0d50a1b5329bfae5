package dashboard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/swci/dashboard"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// TestModelsAreWholeOrNone: a page gets a file of the length that was said, or words before it begins; one that breaks off is no file.
func TestModelsAreWholeOrNone(t *testing.T) {
	wait, waits := make(chan struct{}), make(chan struct{}, 2)
	s := &swarm{}
	s.fetch = func(ctx context.Context, of dashboard.ModelOf, begin func(string, int64) io.Writer) error {
		if of.Contract == "slow" {
			waits <- struct{}{}
			select {
			case <-wait:
			case <-ctx.Done():
			}
		}
		if of.Round == 2 || of.Contract != "c" {
			return exit.New(exit.Denied, "ask its owner", "no\x1b[2J model\nis let out")
		}
		w := begin("c-round-1.safetensors", 8)
		for _, part := range []string{"0123", "", "45"} {
			if _, err := io.WriteString(w, part); err != nil {
				return err
			}
		}
		switch of.Digest {
		case "short":
			return errors.New("the holder has gone")
		case "wrong":
			_, _ = io.WriteString(w, "67")
			return errors.New("what came has another digest")
		}
		_, err := io.WriteString(w, "67")
		return err
	}
	invited := serve(t, s, false)
	address, c := <-invited, browser(t)
	base, _, _ := strings.Cut(address, "/?")
	if status, said, _ := get(t, c, base+"/api/model/c?round=1&digest=good"); status != http.StatusUnauthorized || strings.Contains(said, "0123") {
		t.Errorf("who was not let in: %d %s", status, said)
	}
	get(t, c, address)
	status, said, head := get(t, c, base+"/api/model/c?round=1&digest=good")
	if status != http.StatusOK || said != "01234567" || head.Get("Content-Length") != "8" || head.Get("Content-Disposition") != "attachment; filename=c-round-1.safetensors" || head.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v: %q", status, head, said)
	}
	for _, digest := range []string{"short", "wrong"} {
		res, err := c.Get(base + "/api/model/c?round=1&digest=" + digest)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err == nil || len(data) >= 8 {
			t.Errorf("%s: %q came, as if it were whole: %v", digest, data, err)
		}
	}
	if status, said, head := get(t, c, base+"/api/model/c?round=2&digest=good"); status != http.StatusBadGateway || !strings.Contains(said, `{"error":"no model is let out","remedy":"ask its owner"}`) || head.Get("Content-Disposition") != "" {
		t.Errorf("%d %s", status, said)
	}
	for _, bad := range []string{"c?digest=good", "c?round=-1&digest=good", "c?round=1&digest=a%0ab", "a%0ab?round=1", strings.Repeat("c", 400) + "?round=1"} {
		if status, said, _ := get(t, c, base+"/api/model/"+bad); status != http.StatusBadRequest || !strings.Contains(said, "reload the page") {
			t.Errorf("%s: %d %s", bad, status, said)
		}
	}
	done := make(chan struct{})
	for range 2 {
		go func() {
			defer func() { done <- struct{}{} }()
			if res, err := c.Get(base + "/api/model/slow?round=1&digest=good"); err == nil {
				_ = res.Body.Close()
			}
		}()
		<-waits
	}
	if status, said, _ := get(t, c, base+"/api/model/c?round=1&digest=good"); status != http.StatusServiceUnavailable || !strings.Contains(said, "2 models are fetched already") {
		t.Errorf("a third one: %d %s", status, said)
	}
	close(wait)
	<-done
	<-done
	if status, _, _ := get(t, c, base+"/api/model/c?round=1&digest=good"); status != http.StatusOK {
		t.Errorf("after that: %d", status)
	}
}
