package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/pause"
)

func TestFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := pause.For(t.Context(), time.Minute); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		why := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		begin = time.Now()
		if err := pause.For(ctx, time.Minute); !errors.Is(err, why) || time.Since(begin) != time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}
