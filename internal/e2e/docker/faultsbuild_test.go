package docker_test

import (
	"net/http"
	"sync"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/consensus/task"
)

// builds makes a task that builds an image. Nothing can be held while it is built but by time: far more than a fault takes.
func builds(h *hosts) (under, release func()) {
	h.task("work", task.MakeUserContainer, "ROOTTASK", "BuildContext : null\nBuildType : INLINE\nBuildSteps :\n- FROM swarm-test-ml:latest\n- RUN sleep 12 && touch /built\n")
	e := h.engines[0].Engine()
	under = func() {
		h.Until("a step to run", func() bool {
			all, err := e.ContainerList(h.T.Context(), container.ListOptions{})
			if err != nil {
				h.T.Fatal(err)
			}
			return len(all) > 0
		})
	}
	return under, func() {}
}

// fetches makes a task that fills a volume with what the host fetches.
func fetches(h *hosts) (under, release func()) {
	l, err := h.Host(21).Listen("tcp", h.Addr(21)+":0")
	if err != nil {
		h.T.Fatal(err)
	}
	asked, held := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(asked) })
	release = sync.OnceFunc(func() { close(held) })
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first()
		select {
		case <-held:
			_, _ = w.Write([]byte("content"))
		case <-r.Context().Done():
		}
	})}
	go func() { _ = server.Serve(l) }() // until it is closed
	h.T.Cleanup(func() { release(); _ = server.Close() })
	h.task("work", task.MakeSwarmUserContent, "ROOTTASK", "ContentType : BUILDCONTENT\nOpsList :\n- Operation : DOWNLOAD\n  Target : http://"+l.Addr().String()+"/file\n  Options :\n  - Out : file\n")
	return func() { <-asked }, release
}
