package e2e_test

import (
	"context"
	"fmt"
	"os"

	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// ofTwoImages runs jobs whose groups have images of their own: each is to be one that the host's owner allows.
func (w *swarm) ofTwoImages(e *engine.Engine) {
	w.T.Helper()
	for _, name := range []string{"allowed", "not-allowed"} {
		other := "two-images:" + name
		if err := e.ImageTag(w.T.Context(), engine.ImagePYT, other); err != nil {
			w.T.Fatal(err)
		}
		w.T.Cleanup(func() {
			if _, err := e.ImageRemove(context.Background(), other, image.RemoveOptions{}); err != nil {
				w.T.Error(err)
			}
		})
		text := fmt.Sprintf("name: %s\ngroups:\n- {name: a, image: %s, command: [echo, one]}\n- {name: b, image: %q, command: [echo, two]}\n", name, engine.ImagePYT, other)
		if err := os.WriteFile(w.Path(name+".yaml"), []byte(text), 0o600); err != nil {
			w.T.Fatal(err)
		}
	}
	w.says(0, "run job -f "+w.Path("allowed.yaml"), "image "+engine.ImagePYT, "image two-images:allowed", "swop/a/0: one", "swop/b/1: two")
	w.says(1, "run job -f "+w.Path("not-allowed.yaml"), "does not allow it")
}
