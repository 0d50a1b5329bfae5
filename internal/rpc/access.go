package rpc

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/identity"
)

// Access says who may call a method, and what the call must carry.
type Access struct {
	// Roles that may call the method.
	Roles []identity.Role
	// Token: the call speaks for a node, so it carries the node's name and the token that registration returned.
	Token bool
	// Message bounds a request, in bytes, before and after decompression; 0: 64 KiB.
	Message int64
	// Answer is what else serving one call may take, in bytes; 0: 32 KiB.
	Answer int64
	// AnySwarm: a caller that does not know the swarm ID yet may leave it out.
	AnySwarm bool
	// Leader: the SN that leads answers, whichever is asked. One that does not lead passes the call on.
	Leader bool
	// Timeout is for how long a leader is looked for, and waited for; 0: proposeTimeout.
	Timeout time.Duration
	// Asks: the call commits nothing, though the leader answers it.
	Asks bool
}

// commits reports whether what a call did shows in the state.
func (a Access) commits() bool { return !a.Asks }

// bounds are those of methods that take more than a small message, answer or time, or that commit nothing though the leader answers.
func bounds() map[string]Access {
	return map[string]Access{
		swarmv1connect.SwarmServiceGetHealthProcedure:            {Answer: 1 << 20},
		swarmv1connect.SwarmServiceStartProbeProcedure:           {Asks: true},
		swarmv1connect.SwarmServiceGetProbeProcedure:             {Answer: 2 << 20, Asks: true},
		swarmv1connect.NodeServiceChallengeProcedure:             {Asks: true},
		swarmv1connect.NodeServiceListNodesProcedure:             {Answer: 1 << 20},
		swarmv1connect.NodeServiceGetProofsProcedure:             {Answer: 1 << 20},
		swarmv1connect.SessionServiceOpenSessionProcedure:        {Message: MaxMessage, Answer: 4 << 20},
		swarmv1connect.SessionServiceReportProcedure:             {Message: 1 << 20, Asks: true, Timeout: reportTimeout},
		swarmv1connect.SessionServiceWatchContractProcedure:      {Answer: 64 << 10},
		swarmv1connect.ContractServiceListContractsProcedure:     {Answer: 1 << 20},
		swarmv1connect.ContractServiceGetContractStatusProcedure: {Answer: 4 << 20, Asks: true},
		swarmv1connect.ContractServiceGetHistoryProcedure:        {Answer: 8 << 20, Asks: true},
		swarmv1connect.ContractServiceCreateContractProcedure:    {Message: 256 << 10},
		swarmv1connect.TaskServiceEditTaskProcedure:              {Message: 256 << 10},
		swarmv1connect.TaskServiceGetTaskProcedure:               {Answer: 2 << 20, Asks: true},
		swarmv1connect.TaskServiceListTasksProcedure:             {Answer: 4 << 20},
		swarmv1connect.TaskServiceListTaskrunnersProcedure:       {Answer: 256 << 10},
		swarmv1connect.TaskServiceGetTaskrunnerProcedure:         {Answer: 1 << 20, Asks: true},
		swarmv1connect.TaskServiceAssignTaskProcedure:            {Message: 256 << 10, Answer: 1 << 20},
		swarmv1connect.TaskServiceCancelAssignmentProcedure:      {Answer: 1 << 20},
		swarmv1connect.TaskServiceApproveTaskProcedure:           {Answer: 1 << 20},
		swarmv1connect.TaskServiceRefuseTaskProcedure:            {Answer: 1 << 20},
		swarmv1connect.TaskServiceGetAssignmentProcedure:         {Answer: 1 << 20, Asks: true},
		swarmv1connect.TaskServiceListAssignmentsProcedure:       {Answer: 1 << 20},
		swarmv1connect.TaskServiceWatchAssignmentsProcedure:      {Answer: 64 << 10},
		swarmv1connect.ModelServiceListModelsProcedure:           {Answer: 8 << 20, Asks: true},
		swarmv1connect.LedgerServiceReadLedgerProcedure:          {Answer: 4 << 20},
		swarmv1connect.LedgerServiceGetEventsProcedure:           {Answer: 4 << 20},
		swarmv1connect.LogServiceReadLogsProcedure:               {Answer: 160 << 10, Asks: true},
		swarmv1connect.LogServiceReadOwnLogProcedure:             {Answer: 160 << 10},
		swarmv1connect.LogServiceSendLogsProcedure:               {Message: 128 << 10, Asks: true},
		swarmv1connect.RightsServiceGetRightsProcedure:           {Answer: 64 << 10},
		swarmv1connect.RightsServiceSetRightsProcedure:           {Message: 256 << 10, Answer: 64 << 10},
		swarmv1connect.BackupServiceReadBackupProcedure:          {Answer: 4 << 20},
	}
}

// AccessTable returns what each method of the API demands, by full method name ("/swarm.v1.NodeService/Register"), as its option
// access in swarm.proto says. A method without that is absent, and denied to everybody.
func AccessTable() map[string]Access {
	table := bounds()
	services := swarmv1.File_api_swarm_v1_swarm_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			name := fmt.Sprintf("/%s/%s", services.Get(i).FullName(), methods.Get(j).Name())
			said, ok := proto.GetExtension(methods.Get(j).Options(), swarmv1.E_Access).(*swarmv1.Access)
			if !ok || len(said.GetRoles()) == 0 {
				delete(table, name)
				continue
			}
			rule := table[name]
			rule.Token, rule.AnySwarm, rule.Leader = said.GetToken(), said.GetAnySwarm(), said.GetLeader()
			for _, role := range said.GetRoles() {
				rule.Roles = append(rule.Roles, identity.Role(role))
			}
			table[name] = rule
		}
	}
	return table
}

const (
	smallMessage = 64 << 10
	smallAnswer  = 32 << 10
)

func (a Access) maxMessage() int64 { return cmp.Or(a.Message, smallMessage) }

func (a Access) answer() int64 { return cmp.Or(a.Answer, smallAnswer) }

// passedAnswer bounds what is taken of the leader's answer to a call that was passed on: what it is charged for can be an estimate, so
// twice that, and a small answer may have 1 MiB.
func (a Access) passedAnswer() int64 { return max(2*a.answer(), 1<<20) }

// permits reports whether a caller of this role may call the method at all.
func (a Access) permits(role identity.Role) bool { return slices.Contains(a.Roles, role) }
