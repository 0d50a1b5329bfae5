package client

import (
	"net/http"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

func TestEveryServiceHasAClient(t *testing.T) {
	made := newStubs(http.DefaultTransport, http.DefaultTransport, "sn-0:1").services
	if want := swarmv1.File_api_swarm_v1_swarm_proto.Services().Len(); len(made) != want {
		t.Errorf("an SN has %d services, the client knows %d", want, len(made))
	}
}
