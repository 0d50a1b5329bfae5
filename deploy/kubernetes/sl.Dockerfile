# A Swarm Learning node and what its ML programs need, in one image, for clusters that start no containers from within:
#   docker build -f deploy/kubernetes/sl.Dockerfile -t swarm-sl-pyt deploy/kubernetes
#   docker build -f deploy/kubernetes/sl.Dockerfile -t swarm-sl-tf --build-arg ML=swarm-ml-tf deploy/kubernetes
ARG ML=swarm-ml-pyt
ARG SWARMD=swarmd
FROM ${SWARMD} AS swarmd
FROM ${ML}
COPY --from=swarmd /usr/local/bin/swarmd /usr/local/bin/
RUN echo 'swarmd:x:10001:10001:swarmd:/var/lib/swarmd:/usr/sbin/nologin' >>/etc/passwd && mkdir -p -m 0700 /var/lib/swarmd && chown 10001:10001 /var/lib/swarmd
ENV XDG_STATE_HOME=/var/lib
WORKDIR /var/lib/swarmd
ENTRYPOINT ["swarmd"]
USER 10001:10001
