# Every command of release 0.3.
HELP
HELP SWITCH CONTEXT
EXIT ON FAILURE
WAIT FOR 127.0.0.1 PORT
wait for 127.0.0.1 PORT 10
CREATE CONTEXT example 127.0.0.1 PORT
SWITCH CONTEXT example

List Contexts
GET CONTEXT INFO
get context info example
GET CONTEXT VERSION
SET CONTEXT ENV DATASET mnist
set context env example EPOCHS -1
LIST CONTEXT ENV
list context env example
GET CONTEXT ENV DATASET
get context env example EPOCHS
CREATE CONTRACT Study
CREATE CONTRACT another
LIST CONTRACTS
GET CONTRACT INFO Study
GET CONTRACT STATUS Study
get contract status another
RESET CONTRACT defaultbb.cqdb.sml.hpe
reset contract Study
EXIT ON FAILURE OFF
GET CONTRACT STATUS study
SWICH CONTEXT example
EXIT ON FAILURE ON
GET CONTEXT INFO elsewhere
EXIT
