package figures

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/swarmd/swarmd/internal/logs"
)

// beside has figures beside a log.
type beside struct {
	logs.Source

	taker *taker
}

// Beside has a node hand out its figures beside its own log; nil: it keeps none. dir is its state directory; open says what is open between it
// and others, nil: nobody knows.
func Beside(own logs.Source, dir string, open func() Open) logs.Source {
	if own == nil {
		own = logs.NewRing(0)
	}
	return beside{own, newTaker(dir, open)}
}

// Log implements logs.Source.
func (b beside) Log(ctx context.Context, w logs.Wanted, emit func(logs.Line) error) error {
	if !w.Figures {
		return b.Source.Log(ctx, w, emit)
	}
	sent, err := json.Marshal(b.taker.take(ctx))
	if err != nil {
		return fmt.Errorf("figures: %w", err)
	}
	return emit(logs.Line{Text: string(sent)})
}
