package image

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/swarmd/swarmd/internal/text"
)

const (
	maxMessage = 1 << 20 // bytes of one
	maxLayers  = 1 << 10 // that are counted
	tellPause  = 10 * time.Second
)

// message is one of those that an engine sends while it fetches.
type message struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Error    string `json:"error"`
	Progress struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
}

// progress tells now and then how much is there.
type progress struct {
	log    *slog.Logger
	told   time.Time
	layers map[string][2]int64 // bytes that are there, and all, by layer
}

func (p *progress) take(ctx context.Context, m message, now time.Time) {
	if m.Status != "Downloading" || m.Progress.Total <= 0 {
		return
	}
	if p.layers == nil {
		p.layers, p.told = map[string][2]int64{}, now
	}
	if _, known := p.layers[m.ID]; known || len(p.layers) < maxLayers {
		p.layers[m.ID] = [2]int64{m.Progress.Current, m.Progress.Total}
	}
	if now.Sub(p.told) < tellPause {
		return
	}
	p.told = now
	var sum [2]int64
	for _, l := range p.layers {
		sum[0], sum[1] = sum[0]+l[0], sum[1]+l[1]
	}
	p.log.InfoContext(ctx, "fetching goes on", "bytes", sum[0], "of", sum[1])
}

// drain reads an engine's messages to their end. It returns the error that one of them tells.
func drain(ctx context.Context, stream io.Reader, p progress) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("the engine's answer can't be read: %w", err)
		}
		if m.Error != "" {
			return errors.New(text.Line(m.Error))
		}
		p.take(ctx, m, time.Now())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return lines.Err()
}
