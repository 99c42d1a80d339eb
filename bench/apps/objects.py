# SPDX-License-Identifier: BSD-3-Clause
"""Objects of many types made and dropped: dictionaries, lists, strings, instances, a sort."""
import sys


class Node:
    def __init__(self, name, links):
        self.name = name
        self.links = links


def work(seed):
    state = seed
    index = {}
    nodes = []
    for number in range(40_000):
        state = (state * 1103515245 + 12345) % 2147483648
        links = nodes[-(state % 5 + 1):]
        node = Node(f"node-{state % 9973}-{number}", links)
        nodes.append(node)
        index.setdefault(node.name[:9], []).append(node)
        if number % 8 == 0:
            nodes[state % len(nodes)].links = [node]
    text = ",".join(sorted(node.name for node in nodes))
    parts = {part: len(part) for part in text.split(",")}
    return sum(parts.values()) + sum(len(group) for group in index.values())


print(sum(work(seed) for seed in range(int(sys.argv[1]))))
