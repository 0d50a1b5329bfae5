package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// TestContainerCreateIsNotBrokenOff: who goes away while a container is made learns which it is.
func TestContainerCreateIsNotBrokenOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e, err := engine.OpenAt(ctx, answers(t, func(w http.ResponseWriter, r *http.Request) {
		cancel() // it makes it nevertheless
		select {
		case <-r.Context().Done():
			t.Error("the call was broken off")
		default:
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"Id": "made"}`)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	made, err := e.ContainerCreate(ctx, &container.Config{Image: "i"}, nil, nil, nil, "")
	if made.ID != "made" || err != nil {
		t.Errorf("made %q, %v", made.ID, err)
	}
	if _, err := e.ContainerCreate(ctx, &container.Config{Image: "i"}, nil, nil, nil, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("who has gone before makes one: %v", err)
	}
}
