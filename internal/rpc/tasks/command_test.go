package tasks_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/rpc/tasks"
)

// TestEverySignedRequestIsACommand: each method of the service whose request has an order is one that operators sign, and becomes a command
// that carries the order.
func TestEverySignedRequestIsACommand(t *testing.T) {
	asked := map[protoreflect.FullName]tasks.Asking{}
	for _, m := range tasks.Asked() {
		asked[m.ProtoReflect().Descriptor().FullName()] = m
	}
	methods := swarmv1.File_api_swarm_v1_swarm_proto.Services().ByName("TaskService").Methods()
	signed := 0
	for i := range methods.Len() {
		in := methods.Get(i).Input()
		if in.Fields().ByName("order") == nil {
			continue
		}
		signed++
		m := asked[in.FullName()]
		if m == nil {
			t.Errorf("%s is signed, and not asked for", in.FullName())
			continue
		}
		o := &ledger.Order{By: "spiffe://hospital.example/swarm/swci/admin"}
		c, ok := tasks.Command(m, o, 7).(state.Ordered)
		if !ok || c.OrderOf() != o {
			t.Errorf("%s becomes %v", in.FullName(), c)
			continue
		}
		if name := strings.ReplaceAll(c.Type(), "_", ""); !strings.EqualFold(name+"Request", string(in.Name())) {
			t.Errorf("%s becomes %s", in.FullName(), c.Type())
		}
	}
	if signed == 0 || signed != len(asked) {
		t.Errorf("%d requests are signed, %d are asked for", signed, len(asked))
	}
	if c := tasks.Command(&swarmv1.BanNodeRequest{}, &ledger.Order{}, 7); c != nil {
		t.Errorf("the ban of a node becomes %s", c.Type())
	}
}
