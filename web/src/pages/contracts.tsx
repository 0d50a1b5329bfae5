// All contracts.
import { count } from "../format";
import { Empty, Quorum, Shown, State, Table, Time } from "../parts";
import { path } from "../route";
import { useDoc } from "../store";
import { phaseTone } from "../words";

export function ContractsPage() {
  const contracts = useDoc("contracts");
  return (
    <>
      <header class="title">
        <h1>Contracts</h1>
        <p class="lead">A contract is one training that peers do together, with its rules.</p>
      </header>
      <Shown doc={contracts} what="contracts">
        {(c) => (
          <>
            <Quorum of={c.no_quorum} />
            {c.contracts.length === 0 ? (
              <Empty title="There is no contract yet.">
                <p>
                  The first program that starts makes one. To set rules before: <code>swarmctl create contract NAME</code>
                </p>
              </Empty>
            ) : (
              <Table
                caption="Contracts"
                head={
                  <>
                    <th>contract</th>
                    <th>phase</th>
                    <th class="n">run</th>
                    <th class="n">last round</th>
                    <th class="n">programs</th>
                    <th class="n">ended</th>
                    <th class="n">least peers of a round</th>
                    <th>made</th>
                    <th>models</th>
                  </>
                }
              >
                {c.contracts.map((x) => (
                  <tr key={x.name}>
                    <th scope="row" class="long">
                      <a href={path("contract", x.name)}>{x.name}</a>
                    </th>
                    <td>
                      <State tone={phaseTone(x.phase)}>{x.phase}</State>
                    </td>
                    <td class="n">{x.run}</td>
                    <td class="n">{count(x.round)}</td>
                    <td class="n">{x.open_sessions}</td>
                    <td class="n">{x.ended_sessions}</td>
                    <td class="n">{x.min_peers || "–"}</td>
                    <td>
                      <Time at={x.created} />
                    </td>
                    <td>
                      <a href={path("models", x.name)} aria-label={`models of ${x.name}`}>
                        models
                      </a>
                    </td>
                  </tr>
                ))}
              </Table>
            )}
          </>
        )}
      </Shown>
    </>
  );
}
