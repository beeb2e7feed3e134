"""The words that the machinery itself puts on a page, in both languages."""

from collections.abc import Mapping

_WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "lines": "{start}–{end}",
        "line": "{start}",
        "lines-spoken": "lines {start} to {end}",
        "line-spoken": "line {start}",
        "spoken-separator": ", ",
        "code-of": "Code of {name}",
        "repository": "repository",
        "no-git": "No link to the repository: this was built without git.",
        "shallow": "No link to the repository: this was built from a shallow clone.",
        "edited": "No link to the repository: the file has uncommitted edits.",
        "outline": "Outline",
        "source-title": "Source",
        "source-lead": "The kernels, the tools and the tests, as this site shows them.",
        "file-lines": "{count} lines",
        "results-title": "Results",
        "results-lead": "Every number of this book comes from one of these runs.",
        "old": "old",
        "missing": "not measured yet on {device}; run: codewalk run {job}",
        "unsupported": "not supported",
        "out-of-memory": "out of memory",
        "failed": "wrong answer",
        "skipped": "skipped",
        "stale-since": "measured {day}; {path} changed {when}",
        "stale-gone": "measured {day}; {path} is gone",
        "uncommitted": "(uncommitted)",
        "unknown": "since",
        "measured": "measured {day} on {machine}",
        "spread": "{low} to {high}",
        "table": "Table",
        "higher": "higher is better",
        "lower": "lower is better",
        "at": "At {x}",
        "behind-one": "{what} is behind the code:",
        "behind": "{what} are behind the code:",
        "section": "1 section",
        "sections": "{count} sections",
        "value": "1 value",
        "values": "{count} values",
        "and": " and ",
        "unread": "The code of this section changed on {day}; "
        "the text was last read against it on {read}.",
        "unread-uncommitted": "The code of this section has uncommitted changes; "
        "the text was last read against it on {read}.",
        "unread-unknown": "The code of this section has changed since "
        "the text was last read against it on {read}.",
        "old-and-new": "Old and new lines",
        "gone": "gone",
        "day": "{day} {name} {year}",
        "job": "Job",
        "device": "Device",
        "run": "Run",
        "took": "{seconds} s",
        "state": "State",
        "fresh": "current",
        "stale": "old",
        "command": "Command",
        "inputs": "Inputs ({count} files)",
        "input": "file",
        "digest": "digest",
        "rows": "Rows ({count})",
        "all-rows": "In all rows",
        "log-scale": "log scale",
        "software": "Software",
        "machine": "Machine",
        "again": "Run it again",
        "none-yet": "Nothing has been measured yet.",
        "yes": "yes",
        "no": "no",
        "error-bar": "This page has an error: {first}",
        "error-more": "and {count} more",
        "home": "Home",
    },
    "zh": {
        "lines": "{start}–{end} 行",
        "line": "{start} 行",
        "lines-spoken": "第 {start} 到 {end} 行",
        "line-spoken": "第 {start} 行",
        "spoken-separator": "，",
        "code-of": "{name} 的代码",
        "repository": "仓库",
        "no-git": "没有仓库链接：本站在没有 git 的环境里构建。",
        "shallow": "没有仓库链接：本站从浅克隆构建。",
        "edited": "没有仓库链接：这个文件有尚未提交的改动。",
        "outline": "目录",
        "source-title": "源码",
        "source-lead": "kernel、工具和测试的源码，与本站展示的一致。",
        "file-lines": "{count} 行",
        "results-title": "结果",
        "results-lead": "书里的每一个数字都来自下面某一次运行。",
        "old": "旧",
        "missing": "还没有在 {device} 上测过；运行：codewalk run {job}",
        "unsupported": "不支持",
        "out-of-memory": "显存不足",
        "failed": "答案不对",
        "skipped": "跳过",
        "stale-since": "{day} 测得；{path} 在 {when} 改过",
        "stale-gone": "{day} 测得；{path} 已不存在",
        "uncommitted": "（未提交）",
        "unknown": "之后",
        "measured": "{day} 在 {machine} 上测得",
        "spread": "{low} 到 {high}",
        "table": "表格",
        "higher": "越高越好",
        "lower": "越低越好",
        "at": "{x} 处",
        "behind-one": "本页有 {what}落后于代码：",
        "behind": "本页有 {what}落后于代码：",
        "section": "1 节",
        "sections": "{count} 节",
        "value": "1 个数值",
        "values": "{count} 个数值",
        "and": "和 ",
        "unread": "本节的代码在 {day}改过；正文上次对照代码读过是在 {read}。",
        "unread-uncommitted": "本节的代码有未提交的改动；"
        "正文上次对照代码读过是在 {read}。",
        "unread-unknown": "正文上次对照代码读过是在 {read}，之后本节的代码改过。",
        "old-and-new": "改动前后的代码",
        "gone": "已不存在",
        "day": "{year} 年 {month} 月 {day} 日",
        "job": "任务",
        "device": "设备",
        "run": "运行于",
        "took": "{seconds} 秒",
        "state": "状态",
        "fresh": "最新",
        "stale": "旧",
        "command": "命令",
        "inputs": "输入（{count} 个文件）",
        "input": "文件",
        "digest": "摘要",
        "rows": "数据（{count} 行）",
        "all-rows": "各行相同",
        "log-scale": "对数刻度",
        "software": "软件",
        "machine": "机器",
        "again": "重新运行",
        "none-yet": "还没有任何测量结果。",
        "yes": "是",
        "no": "否",
        "error-bar": "本页有错误：{first}",
        "error-more": "另有 {count} 个",
        "home": "首页",
    },
}


_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"


def word(key: str, language: str, **parts: object) -> str:
    """The words for `key`, with `parts` filled in."""
    return _WORDS[language][key].format(**parts)


def line_range(start: int, end: int, language: str) -> str:
    """`38–43`; in Chinese `38–43 行`."""
    return word("line" if start == end else "lines", language, start=start, end=end)


def spoken_range(start: int, end: int, language: str) -> str:
    """`lines 38 to 43`, for a screen reader."""
    key = "line-spoken" if start == end else "lines-spoken"
    return word(key, language, start=start, end=end)


def day_of(date: str, language: str) -> str:
    """`28 Nov 2026`, or `2026 年 11 月 28 日`, for an ISO date."""
    year, month, day = (int(part) for part in date.split("-"))
    name = _MONTHS.split()[month - 1]
    return word("day", language, day=day, name=name, month=month, year=year)
