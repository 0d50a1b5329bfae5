package docker_test

import (
	"bytes"
	"context"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// waits blocks until a container has ended; it returns its exit code and all that it said.
func (s *site) waits(name string) (int, string) {
	s.t.Helper()
	ended, errs := s.engine.ContainerWait(s.t.Context(), name, container.WaitConditionNotRunning)
	select {
	case res := <-ended:
		return int(res.StatusCode), s.log(name)
	case err := <-errs:
		s.t.Fatalf("wait for %s: %v", name, err)
	case <-time.After(2 * e2etest.Timeout):
		s.t.Fatalf("%s does not end; it says:\n%s", name, e2etest.Last(s.log(name), 40))
	}
	return 0, ""
}

// log is all that a container said.
func (s *site) log(name string) string {
	s.t.Helper()
	out, err := s.logs(s.t.Context(), name)
	if err != nil {
		s.t.Fatalf("log of %s: %v", name, err)
	}
	return out
}

func (s *site) logs(ctx context.Context, name string) (string, error) {
	r, err := s.engine.ContainerLogs(ctx, name, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return "", err
	}
	defer r.Close()
	var out bytes.Buffer
	_, err = stdcopy.StdCopy(&out, &out, r)
	return out.String(), err
}

// nothingLeft wants no container, volume or network of this test's scope.
func (s *site) nothingLeft() {
	s.t.Helper()
	for _, thing := range enginetest.Left(s.t, s.engine, s.scope) {
		s.t.Errorf("%s is left", thing)
	}
}
