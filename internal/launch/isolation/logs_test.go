package isolation_test

import (
	"bytes"
	"testing"

	enginecontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// logs is all that a container said.
func logs(t *testing.T, e *engine.Engine, id string) string {
	t.Helper()
	r, err := e.ContainerLogs(t.Context(), id, enginecontainer.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	if _, err := stdcopy.StdCopy(&b, &b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
