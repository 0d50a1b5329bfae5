// Package permit is the part of an SN's API that deals in rights: it holds calls of operators and auditors to the sentences that the
// swarm has, shows and sets these, and says which one decides.
package permit

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/policy/rights"
	"github.com/swarmd/swarmd/internal/policy/sentence"
	"github.com/swarmd/swarmd/internal/text"
)

// Rules holds calls to the rights of a swarm. It is safe for concurrent use.
type Rules struct {
	needs map[string]need // by method; those that are open to all roles that may call them are not in it
	last  atomic.Pointer[readSet]
}

// need is what a method is to a sentence.
type need struct {
	verb, resource string
	roles          []identity.Role // that may call it
}

// readSet are the rights of a state, as they were read.
type readSet struct {
	of  *state.Rights
	set *rights.Set
}

// New returns the rules of the API.
func New() *Rules {
	r := &Rules{needs: map[string]need{}}
	services := swarmv1.File_api_swarm_v1_swarm_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			if n, ok := needOf(methods.Get(j)); ok {
				r.needs[string(methods.Get(j).Name())] = n
			}
		}
	}
	return r
}

// openMethods are methods without which nobody finds the swarm, signs anything or learns what it may do.
func openMethods() []string { return []string{"GetSwarm", "Challenge", "GetRights", "ExplainRight"} }

// needOf returns what a method is to a sentence. Calls that speak for a node are to none.
func needOf(m protoreflect.MethodDescriptor) (n need, ok bool) {
	name, service := string(m.Name()), string(m.Parent().Name())
	access, _ := proto.GetExtension(m.Options(), swarmv1.E_Access).(*swarmv1.Access)
	for _, role := range access.GetRoles() {
		n.roles = append(n.roles, identity.Role(role))
		ok = ok || person(identity.Role(role))
	}
	if n.resource = resources()[service]; n.resource == "" {
		n.resource = sentence.AllResources
	}
	if n.verb = verbs()[name]; n.verb == "" {
		n.verb = verbOf(name)
	}
	return n, ok && !access.GetToken() && !slices.Contains(openMethods(), name)
}

// person reports whether those of a role are people, whom rights are about. Nodes do what the swarm is made of.
func person(r identity.Role) bool { return r == identity.RoleSWCI || r == identity.RoleAudit }

// resources are what the methods of services are about. A backup has all of it.
func resources() map[string]string {
	return map[string]string{
		"SwarmService": rights.Nodes, "NodeService": rights.Nodes, "ContractService": rights.Contracts, "TaskService": rights.Tasks,
		"ModelService": rights.Models, "LedgerService": rights.Logs, "LogService": rights.Logs, "RightsService": rights.Rights,
	}
}

// verbs are those of methods whose names do not say it: what they change was made by somebody else.
func verbs() map[string]string {
	return map[string]string{
		"StartProbe": sentence.Use, "PauseContract": sentence.Use, "ResumeContract": sentence.Use, "AssignTask": sentence.Use,
		"CancelAssignment": sentence.Use, "ResetTaskrunner": sentence.Use, "ApproveTask": sentence.Use, "RefuseTask": sentence.Use,
	}
}

// verbOf is the verb of a method by its name. What is neither shown nor listed is changed.
func verbOf(method string) string {
	for prefix, verb := range map[string]string{"List": sentence.Inspect, "Get": sentence.Read, "Read": sentence.Read, "Watch": sentence.Read} {
		if strings.HasPrefix(method, prefix) {
			return verb
		}
	}
	return sentence.Manage
}

// CheckCall returns why a caller may not call a procedure of the API with a message, as a *state.Error, or nil. The message may be nil.
func (r *Rules) CheckCall(view *state.State, who identity.ID, procedure string, m any) error {
	if view.Rights == nil || !person(who.Role()) {
		return nil
	}
	message, _ := m.(proto.Message)
	return r.Check(view, who.String(), procedure[strings.LastIndexByte(procedure, '/')+1:], message)
}

// Check is CheckCall for an operator or auditor whose SPIFFE ID is known, and the name of a method; or for an SL that has signed something.
func (r *Rules) Check(view *state.State, who, method string, m proto.Message) error {
	if id, err := identity.ParseIDString(who); err == nil && id.Role() == identity.RoleSL {
		return checkSL(view, id, method, m)
	}
	if err := notBeside(m); err != nil {
		return err
	}
	n, ok := r.needs[method]
	if view.Rights == nil || !ok {
		return nil
	}
	a := sentence.Action{Subject: who, Verb: n.verb, Resource: n.resource, Facts: facts(view, n.resource, method, m)}
	j := r.read(view.Rights).Judge(a)
	if j.Allowed {
		return nil
	}
	name := a.Facts[rights.NameOf(n.resource)]
	why := "the rights of this swarm have no sentence"
	if j.Number > 0 {
		why = fmt.Sprintf("sentence %d of the swarm's rights comes nearest: %s", j.Number, j.Why)
	}
	return &state.Error{
		Reason:  state.ReasonNoRight,
		Message: text.Clip(text.Line(fmt.Sprintf("%s may not %s %s: %s", who, n.verb, strings.TrimSpace(n.resource+" "+name), why)), maxMessage),
		Remedy:  text.Clip(text.Line(strings.TrimSpace("ask who may manage rights; see: swarmctl explain right "+n.verb+" "+n.resource+" "+name)), maxMessage),
	}
}

const maxMessage = 600 // bytes of a line: names of somebody else's are in it

// read returns the sentences of a state, which are read again only when they have changed.
func (r *Rules) read(of *state.Rights) *rights.Set {
	if last := r.last.Load(); last != nil && last.of == of {
		return last.set
	}
	set := rights.NewSet(of.Sentences)
	r.last.Store(&readSet{of, set})
	return set
}

// facts are what is known of what a call is about, by the fields of its message.
func facts(view *state.State, resource, method string, m proto.Message) map[string]string {
	known := map[string]string{}
	if m == nil {
		return known
	}
	whole := m.ProtoReflect()
	if part := whole.Descriptor().Fields().ByName("part"); part != nil && part.Message() != nil { // approvals name what they are of in one
		whole = whole.Get(part).Message()
	}
	field := func(name protoreflect.Name) string {
		f := whole.Descriptor().Fields().ByName(name)
		if f == nil || f.Kind() != protoreflect.StringKind || f.IsList() {
			return ""
		}
		return whole.Get(f).String()
	}
	known[rights.ContractName], known[rights.TaskName], known[rights.TaskrunnerName] = field("contract"), field("task"), field("taskrunner")
	switch name := field("name"); resource {
	case rights.Nodes:
		known[rights.NodeName] = nodeName(view, name)
	case rights.Logs:
		known[rights.NodeName] = nodeName(view, field("node"))
		assignment(view, field("assignment"), known)
	case rights.Tasks:
		if strings.HasSuffix(method, "Taskrunner") {
			known[rights.TaskrunnerName] = name
		} else if name != "" {
			known[rights.TaskName] = name
		}
		if method != "AssignTask" { // which names what is to become of a new one
			assignment(view, field("assignment")+field("id"), known)
		}
	}
	return known
}

// nodeName is the name of a node that may be called by its node key.
func nodeName(view *state.State, name string) string {
	if n := view.NodeOfKey(name); n != nil && name != "" {
		return n.Name
	}
	if b := view.Banned(name); b != nil && b.Name != "" {
		return b.Name
	}
	return name
}

// assignment puts in what an assignment is of, whatever the message says of that.
func assignment(view *state.State, id string, known map[string]string) {
	if view.Tasks == nil || view.Tasks.Assignments[id] == nil {
		return
	}
	a := view.Tasks.Assignments[id]
	known[rights.TaskName], known[rights.TaskrunnerName] = a.Task, a.Taskrunner
}
