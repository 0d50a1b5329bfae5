package swop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
)

// imageLimit bounds how long it takes to find an image. No engine needs that long.
const imageLimit = time.Minute

// Images finds the images of tasks as their types do.
func Images(types map[string]work.Type) func(ctx context.Context, t *task.Task) (*policy.Image, consent.Verdict) {
	return func(ctx context.Context, t *task.Task) (*policy.Image, consent.Verdict) {
		find := types[t.Type].Image
		if find == nil {
			return nil, consent.Verdict{Decision: consent.Allowed}
		}
		limited, cancel := context.WithTimeout(ctx, imageLimit)
		defer cancel()
		image, err := find(limited, t)
		var passing *work.Passing
		var lasting *work.Lasting
		switch {
		case err == nil:
			return image, consent.Verdict{Decision: consent.Allowed}
		case limited.Err() != nil:
			words := fmt.Sprintf("nobody could say within %v which image task %s uses: see whether the container engine answers (docker ps)", imageLimit, t.Name)
			return nil, consent.Verdict{Decision: consent.Later, Sentence: words, Detail: work.Explained(err)}
		case errors.As(err, &passing):
			return nil, consent.Verdict{Decision: consent.Later, Sentence: passing.Words, Detail: work.Explained(passing.Err)}
		case errors.As(err, &lasting):
			return nil, consent.Verdict{Decision: consent.Later, Lasts: true, Sentence: lasting.Words, Detail: work.Explained(lasting.Err)}
		}
		return nil, consent.Verdict{Decision: consent.Refused, Sentence: work.Explained(err)}
	}
}
