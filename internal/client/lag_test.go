package client_test

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
)

// shows is an SN that repeats a view every 15 s for as long as a stream lasts.
type shows struct {
	view *swarmv1.ContractView
	stop time.Duration // the SN dies then; 0: never
}

// showing is a client whose SNs do nothing but show views.
func showing(t *testing.T, sns map[string]shows, order ...string) *client.Client {
	t.Helper()
	start := time.Now()
	var writers sync.WaitGroup
	t.Cleanup(writers.Wait)
	c, err := client.New(client.Config{
		SNs: order, SwarmID: swarmID, Log: slog.New(slog.DiscardHandler),
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			sn := sns[r.URL.Host]
			dead := sn.stop > 0 && time.Since(start) >= sn.stop
			if dead || r.URL.Path != "/swarm.v1.SessionService/WatchContract" {
				return nil, io.ErrUnexpectedEOF
			}
			out, in := io.Pipe()
			writers.Go(func() {
				b, _ := proto.Marshal(sn.view)
				for sn.stop == 0 || time.Since(start) < sn.stop {
					if _, err := in.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)); err != nil {
						return
					}
					select {
					case <-r.Context().Done():
						in.CloseWithError(r.Context().Err())
						return
					case <-time.After(15 * time.Second):
					}
				}
				in.CloseWithError(io.ErrUnexpectedEOF)
			})
			head := http.Header{"Content-Type": {"application/connect+proto"}, client.HeaderSwarmID: {swarmID}}
			return &http.Response{StatusCode: http.StatusOK, Header: head, Body: out, Request: r}, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestALieAboutTheIndexIsForgotten: an SN that shows a view of the last possible index or round is heard as long as it lives; then
// the others are, though by that they lag.
func TestALieAboutTheIndexIsForgotten(t *testing.T) {
	for name, lie := range map[string]*swarmv1.ContractView{
		"index": view(1, 1, 0, math.MaxUint64), "round": view(1, math.MaxUint64, 0, 1), "run": view(math.MaxUint64, 1, 0, 1),
	} {
		for _, honest := range [][]string{{"b:1"}, {"b:1", "c:1"}} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sns := map[string]shows{"a:1": {view: lie, stop: 20 * time.Second}, "b:1": {view: view(1, 1, 0, 5)}, "c:1": {view: view(1, 1, 0, 5)}}
					c := showing(t, sns, append([]string{"a:1"}, honest...)...)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
					defer cancel()
					heard := false
					_ = c.WatchContract(ctx, "c", func(v *swarmv1.ContractView) error {
						if heard = v.GetIndex() == 5; heard {
							cancel()
						}
						return nil
					})
					if !heard {
						t.Error("honest SNs are not heard any more")
					}
				})
			})
		}
	}
}

// TestAnSNThatLagsIsLeft: what another SN has shown counts while one confirms it.
func TestAnSNThatLagsIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := showing(t, map[string]shows{
			"a:1": {view: view(1, 3, 0, 9), stop: 20 * time.Second}, "b:1": {view: view(1, 1, 0, 5)}, "c:1": {view: view(1, 3, 0, 9)},
		}, "a:1", "b:1", "c:1")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		_ = c.WatchContract(ctx, "c", func(v *swarmv1.ContractView) error {
			if v.GetIndex() != 9 {
				t.Errorf("the contract went back to %v", v)
			}
			return nil
		})
		if got := c.SNs()[0]; got != "c:1" {
			t.Errorf("watches %s, want the SN that does not lag", got)
		}
	})
}
