package swop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
)

// imageLimit bounds how long it takes to find an image. No engine needs that long.
const imageLimit = time.Minute

// Images finds the images of tasks as their types do.
func Images(types map[string]work.Type) func(ctx context.Context, t *task.Task) (*policy.Image, error) {
	return func(ctx context.Context, t *task.Task) (*policy.Image, error) {
		find := types[t.Type].Image
		if find == nil {
			return nil, nil //nolint:nilnil // tasks of the type have no image
		}
		limited, cancel := context.WithTimeout(ctx, imageLimit)
		defer cancel()
		image, err := find(limited, t)
		switch {
		case err == nil:
			return image, nil
		case ctx.Err() == nil && limited.Err() != nil:
			return nil, fmt.Errorf("nobody could say within %v which image task %s uses: see whether the container engine answers (docker ps)", imageLimit, t.Name)
		}
		return nil, errors.New(work.Explained(err))
	}
}
