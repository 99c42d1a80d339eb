# The image "tcmalloc" of server.yaml: the library, and a shell that copies it.
FROM debian:12-slim
COPY tcmalloc/lib/libtcmalloc.so.4 /
